// Activations other than the ReLU: their values in the forward pass, and values and derivatives
// together in the backward pass. Each is a type, so that loops over examples do not branch.
//
// The value of a sum that is not finite is not finite either: divergence is detected in the
// outputs.
#pragma once

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

// sin(pi/2 (scale z + turns)). The argument is counted in quarter turns, so that its reduction is
// exact for any size; the polynomials on the remaining eighth of a turn are those of
// Cephes (sinf, cosf), accurate to about one unit in the last place.
struct Sinusoid {
  static constexpr float quarter_turn = 1.57079632679f;  // in radians
  float scale, turns;                                    // turns is 0, 1, 2 or 3
  ELEGANS_INLINE Floats value(Floats z) const { return both(z).value; }
  ELEGANS_INLINE Both both(Floats z) const {
    const Floats x = scale * z;
    const Floats near = nearest(x);
    const Floats turned = modulo_4(near) + turns;
    const Floats quadrant = turned - where((Ints)(turned >= 4.0f), spread(4.0f));
    const Floats r = (x - near) * quarter_turn;
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
    const Floats value = (Floats)((Words)choose(odd, cosine, sine) ^ flip_sine);
    const Floats derivative = (Floats)((Words)choose(odd, sine, cosine) ^ flip_cosine);
    return {value, derivative * (scale * quarter_turn)};
  }
};

// Calls `function` with the activation of a network, if it has one.
template <class Function>
ELEGANS_INLINE void with_activation(const State& state, Function function) {
  const float degree = static_cast<float>(state.degree);
  switch (state.activation) {
    case Activation::relu6:
      return function(Relu6{});
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

ELEGANS_INLINE Floats* preactivations_of(const State& state, Size vector) {
  return reinterpret_cast<Floats*>(state.preactivations) + vector * 32 * state.mask_words;
}

// Adds the values of a vector of neurons to the outputs of `count` examples.
[[maybe_unused]] static void activate(const State& state, Ints real, Floats output,
                                      const Floats* preactivations, Size count, Floats* partial) {
  if (state.activation == Activation::product) {
    for (Size q = 0; q < count; q++) partial[q] *= choose(real, preactivations[q], spread(1.0f));
    return;
  }
  with_activation(state, [=](auto activation) {
    for (Size q = 0; q < count; q++) partial[q] += output * activation.value(preactivations[q]);
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
      Floats& sum = preactivations_of(state, k)[q];
      const Products products = lane_products(choose(real, sum, spread(1.0f)), spread(1.0f));
      sum = where(real, products.others * before);
      all[k] = products.all;
      before *= products.all;
    }
    Floats after = spread(1.0f);
    for (Size k = state.vectors - 1; k > 0; k--) {
      after *= all[k];
      preactivations_of(state, k - 1)[q] *= after;
    }
  }
}

// Replaces a vector's preactivations (for a product: the products of the others) by their
// gradients, for the whole minibatch; entries up to the next multiple of four examples become zero.
// Returns the gradient of the output weights.
[[maybe_unused]] static Floats differentiate(const State& state, Floats* preactivations) {
  const float* grad_output = state.grad_output;
  const Size batch = state.batch;
  Floats total{};
  if (state.activation == Activation::product) {
    for (Size q = 0; q < batch; q++) preactivations[q] *= grad_output[q];
  }
  with_activation(state, [&, grad_output, batch, preactivations](auto activation) {
    Floats sum{};
    for (Size q = 0; q < batch; q++) {
      const Both both = activation.both(preactivations[q]);
      sum += grad_output[q] * both.value;
      preactivations[q] = grad_output[q] * both.derivative;
    }
    total = sum;
  });
  for (Size q = batch; q % 4 != 0; q++) preactivations[q] = Floats{};
  return total;
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
