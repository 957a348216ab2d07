// Tiles of products of matrices whose numbers stand in memory at constant strides.
#pragma once

#include "products.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// Rows of a product that are summed at once, each in two vectors: 24 of 32 registers, or 12 of 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int most_rows = 12;
#else
constexpr int most_rows = 6;
#endif
constexpr Size column = 2 * lanes;

// A tile of a product. Strides are constants and the numbers are operands in memory: the general
// products of products.hpp are a tenth slower here.
template <int rows>
struct Patch {
  Floats at[rows][2];
  ELEGANS_INLINE void clear() {
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) at[r][0] = at[r][1] = Floats{};
  }
  ELEGANS_INLINE void load(const float* x, Size stride) {
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      at[r][0] = load_floats(x + r * stride);
      at[r][1] = load_floats(x + r * stride + lanes);
    }
  }
  ELEGANS_INLINE void store(float* x, Size stride) const {
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
      store_floats(x + r * stride, at[r][0]);
      store_floats(x + r * stride + lanes, at[r][1]);
    }
  }
  // Adds, for each k, the outer product of `rows` numbers and two vectors.
  template <Size row_stride, Size number_stride>
  ELEGANS_INLINE void add_products(const float* numbers, const float* vectors, Size vector_stride,
                                   Size count) {
    for (Size k = 0; k < count; k++) {
      const Floats first = load_floats(vectors);
      const Floats second = load_floats(vectors + lanes);
#pragma GCC unroll 12
      for (int r = 0; r < rows; r++) {
        at[r][0] += first * numbers[r * row_stride];
        at[r][1] += second * numbers[r * row_stride];
      }
      numbers += number_stride;
      vectors += vector_stride;
    }
  }
};

// Calls `function` for all rows in parts of about equal size, none above most_rows.
template <class Function>
ELEGANS_INLINE void in_rows(Size count, Function function) {
  const Size parts = (count + most_rows - 1) / most_rows;
  for (Size part = 0; part < parts; part++) {
    const Size first = count * part / parts;
    with_count<most_rows>(count * (part + 1) / parts - first, function, first);
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
