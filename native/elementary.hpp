// Elementary functions of vectors.
#pragma once

#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// exp(x + rest) = power * (1 + tail) for x <= 0 and a small rest: a power of two, and a polynomial
// of what is left (Cephes, expf).
struct Exponential {
  Floats power, tail;
  ELEGANS_INLINE explicit Exponential(Floats x, Floats rest = Floats{}) {
    x = larger(spread(-87.0f), x);
    const Ints exponent = __builtin_convertvector(x * 1.44269504f - 0.5f, Ints);
    const Floats whole = __builtin_convertvector(exponent, Floats);
    const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f + rest;
    Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    tail = p * r * r + r;
    power = (Floats)((Words)(exponent + 127) << 23);
  }
  ELEGANS_INLINE Floats value() const { return (tail + 1.0f) * power; }
  ELEGANS_INLINE Floats less_one() const { return tail * power + (power - 1.0f); }
};

// exp(x) for x <= 0, to about one unit in the last place.
ELEGANS_INLINE Floats exp_negative(Floats x) { return Exponential(x).value(); }

// 1 / (1 + exp(-x)).
ELEGANS_INLINE Floats logistic(Floats x) {
  const Ints positive = (Ints)(x > 0.0f);
  const Floats e = exp_negative(choose(positive, -x, x));
  const Floats share = 1.0f / (1.0f + e);
  return choose(positive, share, e * share);
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

// erf x, to about one unit in the last place of 1: a quotient of polynomials for |x| up to 4
// (Eigen).
ELEGANS_INLINE Floats error_function(Floats x) {
  const Floats z2 = x * x;
  const Floats square = choose((Ints)(z2 < 16.0f), z2, spread(16.0f));
  Floats p = square * -2.72614225801306e-10f + 2.77068142495902e-08f;
  p = p * square + -2.10102402082508e-06f;
  p = p * square + -5.69250639462346e-05f;
  p = p * square + -7.34990630326855e-04f;
  p = p * square + -2.95459980854025e-03f;
  p = p * square + -1.60960333262415e-02f;
  Floats q = square * -1.45660718464996e-05f + -2.13374055278905e-04f;
  q = q * square + -1.68282697438203e-03f;
  q = q * square + -7.37332916720468e-03f;
  q = q * square + -1.42647390514189e-02f;
  const Floats sign = (Floats)(((Words)x & 0x80000000u) | 0x3F800000u);
  return choose((Ints)(z2 < 16.0f), x * p / q, sign);
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
