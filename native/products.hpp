// Products of matrices with lanes on one side, for one instruction set: done in registers for a few
// rows and columns at a time, with every sum in the order of its terms.
#pragma once

#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// Rows or columns of a product: `step` from one to the next, `next` between the terms of a sum.
struct Vectors {
  const float* at;
  Size step, next;
  ELEGANS_INLINE Floats operator()(Size i) const { return load_floats(at + i * step); }
};
struct Numbers {
  const float* at;
  Size step, next;
  ELEGANS_INLINE Floats operator()(Size i) const { return spread(at[i * step]); }
};
template <class Operand>
ELEGANS_INLINE Operand from(Operand operand, Size first) {
  return {operand.at + first * operand.step, operand.step, operand.next};
}

// The destination of a product: `row` from one row to the next, `column` between columns.
struct Place {
  float* at;
  Size row, column;
};

template <int rows, int columns, class Columns>
ELEGANS_INLINE void add_products(Floats (&sum)[rows][columns], Vectors a, Columns b, Size count) {
  for (Size k = 0; k < count; k++) {
    Floats x[rows];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) x[r] = a(r);
#pragma GCC unroll 16
    for (int c = 0; c < columns; c++) {
      const Floats y = b(c);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) sum[r][c] += x[r] * y;
    }
    a.at += a.next;
    b.at += b.next;
  }
}

template <int number>
struct Count {
  static constexpr int value = number;
};

template <int most, class Function>
ELEGANS_INLINE void with_count(Size wanted, Function& function, Size first) {
  if constexpr (most > 0) {
    if (wanted == most) return function(Count<most>{}, first);
    with_count<most - 1>(wanted, function, first);
  }
}

// Calls `function` for 0 ... count - 1 in blocks of `most`, and for the remainder.
template <int most, class Function>
ELEGANS_INLINE void in_blocks(Size count, Function function) {
  Size first = 0;
  for (; first + most <= count; first += most) function(Count<most>{}, first);
  if (first < count) with_count<most - 1>(count - first, function, first);
}

// Stores the products of rows a and columns b, or adds them to the old values; tile_rows rows and
// tile_columns columns at a time.
template <bool added, int tile_rows = 4, int tile_columns = chunk == 16 ? 4 : 2, class Columns>
[[gnu::noinline]] void multiply(Size rows, Size columns, Size count, Vectors a, Columns b,
                                Place place) {
  in_blocks<tile_rows>(rows, [&](auto height, Size row) {
    in_blocks<tile_columns>(columns, [&](auto width, Size column) {
      Floats sum[height.value][width.value] = {};
      add_products(sum, from(a, row), from(b, column), count);
#pragma GCC unroll 16
      for (int r = 0; r < height.value; r++) {
#pragma GCC unroll 16
        for (int c = 0; c < width.value; c++) {
          float* out = place.at + (row + r) * place.row + (column + c) * place.column;
          store_floats(out, added ? load_floats(out) + sum[r][c] : sum[r][c]);
        }
      }
    });
  });
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
