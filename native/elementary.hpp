// Elementary functions of vectors.
#pragma once

#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// exp(x) for x <= 0, to about one unit in the last place: powers of two, and a polynomial for the
// rest (Cephes, expf).
ELEGANS_INLINE Floats exp_negative(Floats x) {
  x = choose((Ints)(x < -87.0f), spread(-87.0f), x);
  const Ints power = __builtin_convertvector(x * 1.44269504f - 0.5f, Ints);
  const Floats whole = __builtin_convertvector(power, Floats);
  const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * (Floats)((Words)(power + 127) << 23);
}

// log(1 + e) for 0 <= e <= 1, as 2 artanh(e / (2 + e)): the argument is at most 1/3.
ELEGANS_INLINE Floats log_one_plus(Floats e) {
  const Floats z = e / (e + 2.0f);
  const Floats z2 = z * z;
  Floats p = z2 * (1.0f / 15) + 1.0f / 13;
  p = p * z2 + 1.0f / 11;
  p = p * z2 + 1.0f / 9;
  p = p * z2 + 1.0f / 7;
  p = p * z2 + 1.0f / 5;
  p = p * z2 + 1.0f / 3;
  p = p * z2 + 1.0f;
  return 2.0f * z * p;
}

// log x for normal x >= 1.
ELEGANS_INLINE Floats log_from_one(Floats x) {
  const Words bits = (Words)x;
  const Floats power = to_floats((bits >> 23) - 127u);
  const Floats part = (Floats)((bits & 0x007FFFFFu) | 0x3F800000u);
  return power * 0.693147181f + log_one_plus(part - 1.0f);
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
