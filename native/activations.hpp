// Activations other than the ReLU: their values in the forward pass, and values and derivatives
// together in the backward pass. Each is a type, so that loops over examples do not branch.
//
// Where a sum is not a number, neither is its value: divergence is detected in the outputs. Errors
// are measured over all floats in tests/native/test_activations.py.
#pragma once

#include "elementary.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

struct Both {
  Floats value, derivative;
};

ELEGANS_INLINE Floats magnitude(Floats x) { return (Floats)((Words)x & 0x7FFFFFFFu); }
// x modulo 4, in [0, 4]; exact unless x is negative and tiny. Not a number if x is infinite.
ELEGANS_INLINE Floats modulo_4(Floats x) { return x - 4.0f * whole(x * 0.25f); }

struct Relu6 {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats derivative = where((Ints)(z > 0.0f) & (Ints)(z < 6.0f), spread(1.0f));
    return {z * derivative + where((Ints)(z >= 6.0f), spread(6.0f)), derivative};
  }
};

struct LeakyRelu {
  float slope;
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats derivative = choose((Ints)(z > 0.0f), spread(1.0f), spread(slope));
    return {z * derivative, derivative};
  }
};

struct Elu {
  float alpha;
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Ints positive = (Ints)(z > 0.0f);
    const Exponential e(choose(positive, Floats{}, z));
    return {choose(positive, z, alpha * e.less_one()),
            choose(positive, spread(1.0f), alpha * e.value())};
  }
};

// (1 - e) / (1 + e) with e = exp(-2 |z|), and the sign of z.
struct Tanh {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Exponential exponential(magnitude(z) * -2.0f);
    const Floats e = exponential.value();
    const Floats share = 1.0f / (1.0f + e);
    const Words sign = ~(Words)z & 0x80000000u;
    return {(Floats)((Words)(exponential.less_one() * share) ^ sign), 4.0f * e * share * share};
  }
};

// The logistic function of z, and its derivative.
struct Sigmoid {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Ints positive = (Ints)(z > 0.0f);
    const Floats e = exp_negative(negated(magnitude(z)));
    const Floats share = 1.0f / (1.0f + e);
    const Floats other = e * share;
    return {choose(positive, share, other), share * other};
  }
};

struct Silu {
  ELEGANS_INLINE Floats value(Floats z) const { return z * Sigmoid{}.value(z); }
  ELEGANS_INLINE Both both(Floats z) const {
    const Both sigmoid = Sigmoid{}.both(z);
    return {z * sigmoid.value, z * sigmoid.derivative + sigmoid.value};
  }
};

struct Softplus {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Ints positive = (Ints)(z > 0.0f);
    const Floats e = exp_negative(negated(magnitude(z)));
    const Floats share = 1.0f / (1.0f + e);
    // log(1 + e) / e for 0 <= e <= 1: the polynomial of least largest error.
    Floats p = e * 5.384054966270924e-3f + -3.0110938474535942e-2f;
    p = p * e + 7.921069860458374e-2f;
    p = p * e + -1.374661922454834e-1f;
    p = p * e + 1.9145114719867706e-1f;
    p = p * e + -2.4852944910526276e-1f;
    p = p * e + 3.3320343494415283e-1f;
    p = p * e + -4.9999552965164185e-1f;
    p = p * e + 1.0f;
    return {choose(positive, z, Floats{}) + p * e, choose(positive, share, e * share)};
  }
};

// z Phi(z). With t = |z|, Phi(-t) is exp(-t^2 / 2) times the quotient of polynomials in t of these
// degrees whose largest relative error for t <= 13.6 is least.
struct Gelu {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats size = magnitude(z);
    const Floats t = smaller(spread(14.0f), size);
    // The square of the upper half of the bits is exact.
    const Floats upper = (Floats)((Words)t & 0xFFFFF000u);
    const Exponential e(upper * upper * -0.5f, (upper - t) * (upper + t) * 0.5f);
    Floats p = t * 4.045279e-3f + 4.0154107e-2f;
    p = p * t + 1.8181258e-1f;
    p = p * t + 4.3637222e-1f;
    p = p * t + 0.5f;
    Floats q = t * 1.0139875e-2f + 1.0065855e-1f;
    q = q * t + 4.6571535e-1f;
    q = q * t + 1.1965903f;
    q = q * t + 1.6706294f;
    q = q * t + 1.0f;
    const Floats ratio = p / q;
    const Floats tail = (ratio * e.tail + ratio) * e.power;
    const Floats below = choose((Ints)(z > 0.0f), 1.0f - tail, tail);
    return {larger(Floats{}, z) - size * tail, z * e.value() * 0.398942280f + below};
  }
};

// z / (1 + exp(-2 sqrt(2 / pi) (z + 0.044715 z^3))).
struct GeluTanh {
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    constexpr float linear = 1.59576912161f, cubic = 0.0713548162726f;
    const Floats z2 = smaller(spread(900.0f), z * z);
    const Both sigmoid = Sigmoid{}.both(z * (z2 * cubic + linear));
    return {z * sigmoid.value,
            z * sigmoid.derivative * (z2 * (3 * cubic) + linear) + sigmoid.value};
  }
};

struct Power {
  int degree;
  ELEGANS_INLINE Floats value(Floats z) const { return raised(z, degree); }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats less = raised(z, degree - 1);
    return {less * z, static_cast<float>(degree) * less};
  }
  ELEGANS_INLINE static Floats raised(Floats z, int exponent) {
    Floats result = spread(1.0f);
    for (int i = 0; i < exponent; i++) result *= z;
    return result;
  }
};

struct TriangleWave {
  float degree;
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats phase = modulo_4(degree - z);
    const Floats derivative = choose((Ints)(phase >= 2.0f), spread(-1.0f), spread(1.0f));
    return {magnitude(phase - 2.0f) - 1.0f, derivative};
  }
};

struct Zigzag {
  float degree;
  float left_slope;  // of the piece that extends to the left
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Ints above = (Ints)(z > degree);
    const Ints below = (Ints)(z < -degree);
    Floats inner = choose(above, spread(degree), z);
    inner = choose(below, spread(-degree), inner);
    const Both wave = TriangleWave{degree}.both(inner);
    const Floats outer = where(above, spread(1.0f)) + where(below, spread(left_slope));
    return {wave.value + (z - inner) * outer, choose(above | below, outer, wave.derivative)};
  }
};

struct Polynomial {
  int degree;
  const float* coefficient;             // of degree 0 first
  const float* derivative_coefficient;  // of the derivative
  ELEGANS_INLINE Floats value(Floats z) const { return horner(z, coefficient, degree); }
  ELEGANS_INLINE Both both(Floats z) const {
    return {value(z), horner(z, derivative_coefficient, degree - 1)};
  }
  ELEGANS_INLINE static Floats horner(Floats z, const float* c, int top) {
    Floats result = 0.0f * z;  // not a number unless z is finite
    for (int i = top; i >= 0; i--) result = result * z + c[i];
    return result;
  }
};

// Sine and cosine on the circle: quarter turns from 0 to 4, and at most half of one in radians
// beyond. The polynomials are those of Cephes (sinf, cosf), accurate to about one unit in the last
// place.
ELEGANS_INLINE Both sine(Floats quarters, Floats r) {
  const Floats quadrant = quarters - where((Ints)(quarters >= 4.0f), spread(4.0f));
  const Floats r2 = r * r;
  Floats sine = r2 * -1.9515295891e-4f + 8.3321608736e-3f;
  sine = (sine * r2 - 1.6666654611e-1f) * r2 * r + r;
  Floats cosine = r2 * 2.443315711809948e-5f - 1.388731625493765e-3f;
  cosine = (cosine * r2 + 4.166664568298827e-2f) * r2 * r2 - 0.5f * r2 + 1.0f;
  const Ints first = (Ints)(quadrant == 1.0f);
  const Ints third = (Ints)(quadrant == 3.0f);
  const Ints odd = first | third;
  const Ints second = (Ints)(quadrant == 2.0f);
  const Words flip_sine = (Words)(second | third) & 0x80000000u;
  const Words flip_cosine = (Words)(first | second) & 0x80000000u;
  return {(Floats)((Words)choose(odd, cosine, sine) ^ flip_sine),
          (Floats)((Words)choose(odd, sine, cosine) ^ flip_cosine)};
}

// sin(frequency z). A quarter turn is the sum of four numbers, of which the first three have so few
// bits that their products with up to 2^13 quarters are exact.
struct Sine {
  float frequency;
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats x = frequency * z;
    const Floats near = nearest(x * 0.636619772f);
    Floats r = (x - near * 1.5703125f) - near * 4.837512969970703125e-4f;
    r = (r - near * 7.549533620476723e-8f) - near * 2.563344151594519e-12f;
    const Both both = sine(modulo_4(near), r);
    return {both.value, both.derivative * frequency};
  }
};

// sin(pi/2 (scale z + turns)). The argument is counted in quarter turns, so that its reduction is
// exact for any size.
struct Sinusoid {
  static constexpr float quarter_turn = 1.57079632679f;  // in radians
  float scale, turns;                                    // turns is 0, 1, 2 or 3
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats x = scale * z;
    const Floats near = nearest(x);
    const Both both = sine(modulo_4(near) + turns, (x - near) * quarter_turn);
    return {both.value, both.derivative * (scale * quarter_turn)};
  }
};

// Any smooth function: a polynomial on each of some intervals of equal length around 0, and on both
// sides of them a line plus a polynomial in 1/z. An interval has its right end.
struct Tabulated {
  const float* table;  // [table_rows][table_pieces], the pieces from left to right
  float length;        // of an interval
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    constexpr float half = table_pieces / 2;
    const float scale = 1.0f / length;
    const float end = (half - 1) * length;
    const Floats x = z * scale;
    const Floats left = -whole(negated(x)) - 1.0f;  // of the interval
    const Floats inner = 2.0f * (x - left) - 1.0f;
    // Not a number is sent to the left, and stays one.
    const Floats place = smaller(spread(2 * half - 1), larger(left + half, Floats{}));
    const Ints outside = (Ints)(magnitude(x) > half - 1) | (Ints)(x == 1 - half);
    const Floats inverse = spread(end) / choose(outside, z, spread(1.0f));
    const Floats t = choose(outside, inverse, inner);
    const Floats stretch = choose(outside, inverse * inverse * (-1.0f / end), spread(2.0f * scale));
    const Ints index = __builtin_convertvector(place, Ints);
    Floats value = entries(table, index);
    Floats derivative{};
#pragma GCC unroll 8
    for (int row = 1; row < table_rows - 1; row++) {
      derivative = derivative * t + value;
      value = value * t + entries(table + row * table_pieces, index);
    }
    const Floats slope = entries(table + (table_rows - 1) * table_pieces, index);
    return {slope * z + value, derivative * stretch + slope};
  }
  // table[index[i]] in each lane.
  ELEGANS_INLINE static Floats entries(const float* table, Ints index) {
#if defined(__AVX512F__)
    return (Floats)_mm512_permutex2var_ps((__m512)load_floats(table), (__m512i)index,
                                          (__m512)load_floats(table + lanes));
#elif defined(__AVX2__)
    return (Floats)_mm256_i32gather_ps(table, (__m256i)index, 4);
#else
    Floats result{};
    for (Size i = 0; i < lanes; i++) result[i] = table[index[i]];
    return result;
#endif
  }
};

// Calls `function` with the activation of a network, if it has one.
template <class Function>
ELEGANS_INLINE void with_activation(const State& state, Function function) {
  const float degree = static_cast<float>(state.degree);
  switch (state.activation) {
    case Activation::relu6:
      return function(Relu6{});
    case Activation::leaky_relu:
      return function(LeakyRelu{state.scale});
    case Activation::elu:
      return function(Elu{state.scale});
    case Activation::tanh:
      return function(Tanh{});
    case Activation::sigmoid:
      return function(Sigmoid{});
    case Activation::silu:
      return function(Silu{});
    case Activation::softplus:
      return function(Softplus{});
    case Activation::gelu:
      return function(Gelu{});
    case Activation::gelu_tanh:
      return function(GeluTanh{});
    case Activation::sine:
      return function(Sine{state.scale});
    case Activation::tabulated:
      return function(Tabulated{state.pieces, state.scale});
    case Activation::power:
      return function(Power{state.degree});
    case Activation::zigzag:
      return function(Zigzag{degree, state.degree % 2 ? 1.0f : -1.0f});
    case Activation::triangle_wave:
      return function(TriangleWave{degree});
    case Activation::polynomial:
      return function(Polynomial{state.degree, state.coefficient, state.derivative_coefficient});
    case Activation::sinusoid:
      return function(Sinusoid{state.scale, static_cast<float>((33 - state.degree) % 4)});
    case Activation::relu:
    case Activation::product:
      break;
  }
}

// The lanes of a vector that are neurons; in the last vector, some may not be.
ELEGANS_INLINE Ints real_lanes(const State& state, Size vector) {
  const Size left = state.width - vector * lanes;
  const Size real = left < lanes ? left : lanes;
  return (Ints)((Ints)lane_numbers() < (Ints)spread(static_cast<std::uint32_t>(real)));
}

// What a vector of neurons keeps of each example in a minibatch for the backward pass: derivatives,
// and behind them values. A product keeps its sums in place of derivatives.
ELEGANS_INLINE Floats* kept_of(const State& state, Size vector) {
  return reinterpret_cast<Floats*>(state.kept) + vector * 2 * 32 * state.mask_words;
}

// Adds the values of a vector of neurons to the outputs of `count` examples. With `values`, they
// are kept there, and preactivations become derivatives.
[[maybe_unused]] static void activate(const State& state, Ints real, Floats output,
                                      Floats* preactivations, Floats* values, Size count,
                                      Floats* partial) {
  if (state.activation == Activation::product) {
    for (Size q = 0; q < count; q++) partial[q] *= choose(real, preactivations[q], spread(1.0f));
    return;
  }
  with_activation(state, [=](auto activation) {
    if (!values) {
      for (Size q = 0; q < count; q++) partial[q] += output * activation.value(preactivations[q]);
      return;
    }
    for (Size q = 0; q < count; q++) {
      const Both both = activation.both(preactivations[q]);
      partial[q] += output * both.value;
      values[q] = both.value;
      preactivations[q] = both.derivative;
    }
  });
}

// Replaces each sum of a product network by the product of all others, which is the output's
// derivative with respect to it; without a division.
[[maybe_unused]] static void multiply_others(const State& state) {
  Floats all[largest_product / lanes];
  for (Size q = 0; q < state.batch; q++) {
    Floats before = spread(1.0f);
    for (Size k = 0; k < state.vectors; k++) {
      const Ints real = real_lanes(state, k);
      Floats& sum = kept_of(state, k)[q];
      const Products products = lane_products(choose(real, sum, spread(1.0f)), spread(1.0f));
      sum = where(real, products.others * before);
      all[k] = products.all;
      before *= products.all;
    }
    Floats after = spread(1.0f);
    for (Size k = state.vectors - 1; k > 0; k--) {
      after *= all[k];
      kept_of(state, k - 1)[q] *= after;
    }
  }
}

// Replaces a vector's derivatives (for a product: the products of the others) by its gradients, for
// the whole minibatch; entries up to the next multiple of four examples become zero. Returns the
// gradient of the output weights.
[[maybe_unused]] static Floats differentiate(const State& state, Floats* derivatives) {
  const float* grad_output = state.grad_output;
  const Size batch = state.batch;
  const Floats* values = derivatives + 32 * state.mask_words;
  Floats sum{};
  if (state.activation != Activation::product) {
    for (Size q = 0; q < batch; q++) sum += grad_output[q] * values[q];
  }
  for (Size q = 0; q < batch; q++) derivatives[q] *= grad_output[q];
  for (Size q = batch; q % 4 != 0; q++) derivatives[q] = Floats{};
  return sum;
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
