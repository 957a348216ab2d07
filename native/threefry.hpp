// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011): the generator of Random123 and of JAX. Word is std::uint32_t or a vector of them.
#pragma once

#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

template <int distance, class Word>
[[gnu::always_inline]] inline void threefry_round(Word& x0, Word& x1) {
  x0 += x1;
  x1 = (x1 << distance) | (x1 >> (32 - distance));
  x1 ^= x0;
}

template <class Word>
[[gnu::always_inline]] inline void threefry(Word k0, Word k1, Word& x0, Word& x1) {
  const Word k2 = k0 ^ k1 ^ 0x1BD11BDAu;
  auto even = [&] {
    threefry_round<13>(x0, x1);
    threefry_round<15>(x0, x1);
    threefry_round<26>(x0, x1);
    threefry_round<6>(x0, x1);
  };
  auto odd = [&] {
    threefry_round<17>(x0, x1);
    threefry_round<29>(x0, x1);
    threefry_round<16>(x0, x1);
    threefry_round<24>(x0, x1);
  };
  x0 += k0;
  x1 += k1;
  even();
  x0 += k1;
  x1 += k2 + 1u;
  odd();
  x0 += k2;
  x1 += k0 + 2u;
  even();
  x0 += k0;
  x1 += k1 + 3u;
  odd();
  x0 += k1;
  x1 += k2 + 4u;
  even();
  x0 += k2;
  x1 += k0 + 5u;
}

// Random words of key (k0, k1) and counter (c0, c1).
struct Pair {
  Words w0, w1;
};
ELEGANS_INLINE Pair random_words(Words k0, Words k1, Words c0, Words c1) {
  threefry(k0, k1, c0, c1);
  return {c0, c1};
}
ELEGANS_INLINE Pair random_words(Key key, Words c0, Words c1) {
  return random_words(spread(key.k0), spread(key.k1), c0, c1);
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
