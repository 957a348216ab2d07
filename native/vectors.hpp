// Vectors of one instruction set: types, and the few operations that GCC and Clang vector
// extensions cannot express or compile badly.
#pragma once

#include <utility>

#include "types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace elegans::ELEGANS_INSTRUCTION_SET {

#define ELEGANS_INLINE [[gnu::always_inline]] inline

#if defined(__AVX512F__)
constexpr Size lanes = 16;
#elif defined(__AVX2__)
constexpr Size lanes = 8;
#else
constexpr Size lanes = 4;
#endif

// Examples whose sums are held in registers at once: 16 of 32 registers, or 8 of 16.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int chunk = 16;
#else
constexpr int chunk = 8;
#endif

typedef float Floats __attribute__((vector_size(lanes * 4), may_alias));
typedef std::int32_t Ints __attribute__((vector_size(lanes * 4), may_alias));
typedef std::uint32_t Words __attribute__((vector_size(lanes * 4), may_alias));
typedef std::uint16_t Halves __attribute__((vector_size(lanes * 2), may_alias));

ELEGANS_INLINE Floats spread(float x) { return Floats{} + x; }
ELEGANS_INLINE Words spread(std::uint32_t x) { return Words{} + x; }
ELEGANS_INLINE Floats to_floats(Words x) { return __builtin_convertvector((Ints)x, Floats); }
ELEGANS_INLINE Floats load_floats(const float* x) {
  Floats floats;
  __builtin_memcpy(&floats, x, sizeof floats);
  return floats;
}
ELEGANS_INLINE void store_floats(float* x, Floats floats) {
  __builtin_memcpy(x, &floats, sizeof floats);
}
ELEGANS_INLINE Words load_words(const std::uint32_t* x) {
  Words words;
  __builtin_memcpy(&words, x, sizeof words);
  return words;
}
ELEGANS_INLINE void store_words(std::uint32_t* x, Words words) {
  __builtin_memcpy(x, &words, sizeof words);
}
ELEGANS_INLINE Words lane_numbers() {
  Words x{};
  for (Size i = 0; i < lanes; i++) x[i] = static_cast<std::uint32_t>(i);
  return x;
}

ELEGANS_INLINE Floats negated(Floats x) { return (Floats)((Words)x ^ 0x80000000u); }
// Where `condition` (all ones or all zeros in each lane) holds, x; elsewhere y.
ELEGANS_INLINE Floats choose(Ints condition, Floats x, Floats y) { return condition ? x : y; }
ELEGANS_INLINE Floats where(Ints condition, Floats x) { return condition ? x : Floats{}; }
// The second where one is not a number.
ELEGANS_INLINE Floats larger(Floats x, Floats y) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_max_ps(0xFFFF, (__m512)x, (__m512)y);
#else
  return choose((Ints)(x > y), x, y);
#endif
}
ELEGANS_INLINE Floats smaller(Floats x, Floats y) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_min_ps(0xFFFF, (__m512)x, (__m512)y);
#else
  return choose((Ints)(x < y), x, y);
#endif
}
ELEGANS_INLINE Floats root(Floats x) {
  for (Size i = 0; i < lanes; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
}

// x rounded to the nearest whole number, a half to the even one; the largest whole number at most
// x.
ELEGANS_INLINE Floats nearest(Floats x) {
#if defined(__AVX512F__)
  // With a mask, because GCC 12 warns of an uninitialised value in the plain one.
  return (Floats)_mm512_maskz_roundscale_ps(0xFFFF, (__m512)x,
                                            _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__AVX2__)
  return (Floats)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(__ARM_NEON)
  return (Floats)vrndnq_f32((float32x4_t)x);
#else
  const Words sign = (Words)x & 0x80000000u;
  const Floats size = (Floats)((Words)x ^ sign);
  const Floats rounded = (size + 0x1p23f) - 0x1p23f;  // from 2^23 on all numbers are whole
  return (Floats)((Words)choose((Ints)(size < 0x1p23f), rounded, size) | sign);
#endif
}
ELEGANS_INLINE Floats whole(Floats x) {
  const Floats rounded = nearest(x);
  return rounded - where((Ints)(rounded > x), spread(1.0f));
}

// One bit per lane: the lanes' sign bits.
ELEGANS_INLINE std::uint32_t sign_bits(Words x) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)x);
#elif defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps((__m256)x));
#elif defined(__SSE2__)
  return static_cast<std::uint32_t>(_mm_movemask_ps((__m128)x));
#else
  std::uint32_t bits = 0;
  for (Size i = 0; i < lanes; i++) bits |= (x[i] >> 31) << i;
  return bits;
#endif
}

// The number of set bits of each lane.
ELEGANS_INLINE Words count_bits(Words x) {
#if defined(__AVX512VPOPCNTDQ__)
  return (Words)_mm512_popcnt_epi32((__m512i)x);
#elif defined(__AVX512BW__)
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i table = _mm512_set4_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100);
  const __m512i bytes =
      _mm512_add_epi8(_mm512_shuffle_epi8(table, _mm512_and_si512((__m512i)x, low)),
                      _mm512_shuffle_epi8(table, _mm512_and_si512((__m512i)(x >> 4), low)));
  return (Words)_mm512_madd_epi16(_mm512_maddubs_epi16(bytes, _mm512_set1_epi8(1)),
                                  _mm512_set1_epi16(1));
#elif defined(__AVX2__)
  const __m256i low = _mm256_set1_epi8(15);
  const __m256i table = _mm256_set_epi32(0x04030302, 0x03020201, 0x03020201, 0x02010100, 0x04030302,
                                         0x03020201, 0x03020201, 0x02010100);
  const __m256i bytes =
      _mm256_add_epi8(_mm256_shuffle_epi8(table, _mm256_and_si256((__m256i)x, low)),
                      _mm256_shuffle_epi8(table, _mm256_and_si256((__m256i)(x >> 4), low)));
  return (Words)_mm256_madd_epi16(_mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1)),
                                  _mm256_set1_epi16(1));
#elif defined(__ARM_NEON)
  return (Words)vpaddlq_u16(vpaddlq_u8(vcntq_u8((uint8x16_t)x)));
#else
  x -= (x >> 1) & 0x55555555u;
  x = (x & 0x33333333u) + ((x >> 2) & 0x33333333u);
  x = (x + (x >> 4)) & 0x0F0F0F0Fu;
  x += x >> 8;
  return (x + (x >> 16)) & 63u;
#endif
}

// A ReLU neuron's part in an output: sum += weight * max(hidden, 0), and `bit` set in fired where
// the neuron fires. A hidden value that is not a number counts as firing, so that it reaches the
// output and is seen there.
ELEGANS_INLINE void fire(Floats hidden, Floats weight, Floats& sum, Words& fired,
                         std::uint32_t bit) {
#if defined(__AVX512F__)
  const __mmask16 on = _mm512_cmp_ps_mask((__m512)hidden, _mm512_setzero_ps(), _CMP_NLE_UQ);
  sum += weight * (Floats)_mm512_maskz_mov_ps(on, (__m512)hidden);
  fired = (Words)_mm512_mask_or_epi32((__m512i)fired, on, (__m512i)fired,
                                      _mm512_set1_epi32(static_cast<int>(bit)));
#else
  const Ints on = ~(Ints)(hidden <= 0.0f);
  sum += weight * where(on, hidden);
  fired |= (Words)on & bit;
#endif
}

// x in the lanes where `bit` is set in `fired`, zero elsewhere.
ELEGANS_INLINE Floats where_bit(Words fired, std::uint32_t bit, float x) {
#if defined(__AVX512F__)
  const __mmask16 on =
      _mm512_test_epi32_mask((__m512i)fired, _mm512_set1_epi32(static_cast<int>(bit)));
  return (Floats)_mm512_maskz_mov_ps(on, _mm512_set1_ps(x));
#else
  return where((Ints)((fired & bit) != 0u), spread(x));
#endif
}

// The sums (or products) over lanes of `lanes` vectors, as one vector. Halves of two vectors are
// added pairwise, then quarters, and so on: a transposition and a sum in one.
template <bool product, Size part, Size... i>
ELEGANS_INLINE Floats join_parts(Floats a, Floats b, std::integer_sequence<Size, i...>) {
  // Lane i of the result takes, from each block of 2*part lanes of a then b, one of `part` sums.
  const Floats low = __builtin_shufflevector(a, b, ((i / part) * 2 * part + i % part)...);
  const Floats high = __builtin_shufflevector(a, b, ((i / part) * 2 * part + part + i % part)...);
  if constexpr (product) return low * high;
  return low + high;
}

template <bool product, Size count>
ELEGANS_INLINE Floats over_lanes(const Floats* x) {
  if constexpr (count == 1) {
    return x[0];
  } else {
    const Floats a = over_lanes<product, count / 2>(x);
    const Floats b = over_lanes<product, count / 2>(x + count / 2);
    return join_parts<product, lanes / count>(a, b, std::make_integer_sequence<Size, lanes>{});
  }
}

// Makes columns of rows, of a square of `lanes` vectors.
template <Size part, Size... i>
ELEGANS_INLINE void exchange(Floats& a, Floats& b, std::integer_sequence<Size, i...>) {
  const Floats low = __builtin_shufflevector(a, b, ((i & part) ? lanes + i - part : i)...);
  b = __builtin_shufflevector(a, b, ((i & part) ? lanes + i : i + part)...);
  a = low;
}

template <Size part = lanes / 2>
ELEGANS_INLINE void transpose(Floats* x) {
#pragma GCC unroll 16
  for (Size i = 0; i < lanes; i++) {
    if (!(i & part)) {
      exchange<part>(x[i], x[i + part], std::make_integer_sequence<Size, lanes>{});
    }
  }
  if constexpr (part > 1) transpose<part / 2>(x);
}

// x with the blocks of `part` lanes of each pair exchanged.
template <Size part, Size... i>
ELEGANS_INLINE Floats swap_parts(Floats x, std::integer_sequence<Size, i...>) {
  return __builtin_shufflevector(x, x, (i ^ part)...);
}

// In every lane the product of all lanes, and of all lanes but this one.
struct Products {
  Floats all, others;
};
template <Size part = 1>
ELEGANS_INLINE Products lane_products(Floats all, Floats others) {
  if constexpr (part == lanes) {
    return {all, others};
  } else {
    const Floats swapped = swap_parts<part>(all, std::make_integer_sequence<Size, lanes>{});
    return lane_products<2 * part>(all * swapped, others * swapped);
  }
}

ELEGANS_INLINE float lane_sum(Floats x) {
  float sum = 0;
  for (Size i = 0; i < lanes; i++) sum += x[i];
  return sum;
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
