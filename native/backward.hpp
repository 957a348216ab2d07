// The backward pass and the update of one vector of neurons.
//
// For ReLUs, hidden values are not kept, only which neurons fired. The output weights' gradient
// does not need them, because a ReLU neuron is homogeneous: the sum over examples of grad * relu(w
// x + b) is w and b times the sums that are the gradients of w and b (up to the output weight). For
// other neurons values and derivatives are kept.
#pragma once

#include "activations.hpp"
#include "descent.hpp"
#include "draws.hpp"
#include "forward.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// The factors of each parameter array and of its gradient in a step.
struct Rates {
  float keep[parameter_count];
  float pull[parameter_count];  // of the parameter in its gradient
  float rate[parameter_count];
  bool idle;  // no weight decay and nothing kept: nothing changes without a gradient
  Direction towards;
  // A parameter after the step, given its place among all.
  ELEGANS_INLINE Floats moved(Parameter kind, Floats x, Size place, Floats gradient) const {
    return keep[kind] * x - rate[kind] * towards(place, gradient + pull[kind] * x);
  }
};

ELEGANS_INLINE Rates rates_of(const State& state, float factor) {
  Rates rates{{}, {}, {}, !state.keeps, Direction(state, state.step)};
  const float kept = rates.towards.kept_decay(state.decay_in_gradient);
  for (int p = 0; p < parameter_count; p++) {
    rates.rate[p] = state.learning_rate[p] * factor;
    const float share = state.decay_in_gradient ? (1.0f - kept) * rates.rate[p] : 1.0f;
    rates.keep[p] = 1.0f - share * state.decay[p];
    rates.pull[p] = kept * state.decay[p];
    rates.idle = rates.idle && rates.keep[p] == 1.0f;
  }
  return rates;
}

// Transposes 32 words of 32 bits: bit i of word j becomes bit j of word i (Hacker's Delight, 7-3).
ELEGANS_INLINE void transpose_bits(std::uint32_t* words) {
  std::uint32_t mask = 0x0000FFFFu;
  for (int size = 16; size > 0; size /= 2, mask ^= mask << size) {
    for (int block = 0; block < 32; block += 2 * size) {
      for (int i = block; i < block + size; i++) {
        const std::uint32_t swap = ((words[i] >> size) ^ words[i + size]) & mask;
        words[i] ^= swap << size;
        words[i + size] ^= swap;
      }
    }
  }
}

// Fills state.by_input with the examples' inputs; if `signed_by_label`, bits are those of the
// product of input and label.
static void transpose_inputs(const State& state, const Examples& examples, bool signed_by_label) {
  for (Size word = 0; word < state.mask_words; word++) {
    for (Size j = 0; j < state.sign_words && 32 * j < state.inputs; j++) {
      std::uint32_t* target = state.by_input + (word * state.sign_words + j) * 32;
      const std::uint32_t* source = examples.bits + j * examples.capacity + word * 32;
      const std::uint32_t flips = signed_by_label ? state.label_bits[word] : 0u;
#if defined(__AVX512F__)
      const __m512i low = (__m512i)load_words(source);
      const __m512i high = (__m512i)load_words(source + 16);
      const Size real = state.inputs - 32 * j < 32 ? state.inputs - 32 * j : 32;
      for (Size i = 0; i < real; i++) {
        const __m512i bit = _mm512_set1_epi32(static_cast<int>(1u << i));
        const std::uint32_t row = static_cast<std::uint32_t>(_mm512_test_epi32_mask(low, bit)) |
                                  static_cast<std::uint32_t>(_mm512_test_epi32_mask(high, bit))
                                      << 16;
        target[i] = row ^ flips;
      }
#else
      __builtin_memcpy(target, source, 32 * sizeof *target);
      transpose_bits(target);
      for (Size i = 0; i < 32; i++) target[i] ^= flips;
#endif
    }
  }
}

// Offsets, for each input, into the tables of four examples.
static void prepare_example_tables(const State& state) {
  constexpr int entry_shift = __builtin_ctz(static_cast<unsigned>(table_entry_bytes));
  const Size stride = state.sign_words * 32;
  for (Size group = 0; group < state.mask_words * 8; group++) {
    const std::uint32_t* bits = state.by_input + group / 8 * stride;
    std::uint16_t* offset = state.by_input_offset + group * stride;
    const int shift = static_cast<int>(group % 8) * 4;
    for (Size j = 0; j < stride; j += lanes) {
      const Words pattern = (load_words(bits + j) >> shift) & 15u;
      const Halves packed = __builtin_convertvector(pattern << entry_shift, Halves);
      __builtin_memcpy(offset + j, &packed, sizeof packed);
    }
  }
}

// Whether ReLUs on signs are trained by a loss whose derivatives are all -label/batch or zero.
ELEGANS_INLINE bool counts(const State& state) {
  return state.activation == Activation::relu && !state.controls && !state.values &&
         (state.loss.kind == LossKind::hinge || state.loss.kind == LossKind::correlation);
}

// Once per step: the minibatch in the form for the backward pass.
static void prepare_backward(const State& state, const Examples& examples) {
  transpose_inputs(state, examples, counts(state));
  if (!counts(state)) prepare_example_tables(state);
  if (state.activation == Activation::product) multiply_others(state);
}

// The parameters of one vector of neurons.
struct Vector {
  Floats* weight;  // [rows]
  Floats* bias;
  Floats* output;
  Words* mask;  // [mask_words]
};

ELEGANS_INLINE Vector vector_of(const State& state, Size vector) {
  return {reinterpret_cast<Floats*>(state.weight) + vector * state.rows,
          reinterpret_cast<Floats*>(state.bias) + vector,
          reinterpret_cast<Floats*>(state.output) + vector,
          reinterpret_cast<Words*>(state.mask) + vector * state.mask_words};
}

// The step of the parameters of one kind whose gradients are `factor` times a sum over examples.
struct Step {
  const Rates& all;
  Parameter array;
  float keep;
  Floats factor, scaled;  // the second one times the rate
  const float* block;     // where the parameters begin
  float* collected;       // where gradients are kept, if they are to be clipped before the step
  bool plain;             // a step along the gradient, at once
  ELEGANS_INLINE Step(const State& state, const Rates& rates, Parameter kind, float scale,
                      Floats output)
      : all(rates),
        array(kind),
        keep(rates.keep[kind]),
        factor(scale * output),
        scaled(rates.rate[kind] * scale * output),
        block(state.weight),
        collected(state.collected),
        plain(!state.keeps && !collected) {}
  ELEGANS_INLINE Floats moved(Floats* place, Floats sum) const {
    if (plain) return keep * *place - scaled * sum;
    const Size at = reinterpret_cast<const float*>(place) - block;
    if (!collected) return all.moved(array, *place, at, factor * sum);
    store_floats(collected + at, factor * sum);
    return *place;
  }
};

// Bias and output weight, given the sums over examples for the bias, and the sum of weights times
// their sums; both times `scale`.
ELEGANS_INLINE void update_rest(const State& state, const Vector& v, const Rates& rates,
                                Floats bias_sum, Floats dot, float scale) {
  const Floats bias = *v.bias;
  *v.bias = Step(state, rates, hidden_bias, scale, *v.output).moved(v.bias, bias_sum);
  *v.output =
      Step(state, rates, output_weight, scale, spread(1.0f)).moved(v.output, dot + bias * bias_sum);
}

// Hinge loss: all derivatives are -label/batch or zero, so a ReLU's gradient is the number of
// examples that fired with positive input * label, minus that with negative: an AND and a count of
// bits for 32 examples at once, and exact.
template <bool one_word, bool plain>
ELEGANS_INLINE void backward_counts(const State& state, const Vector& v, const Rates& rates) {
  const Size words = one_word ? 1 : state.mask_words;
  const Size stride = state.sign_words * 32;
  Words total{};
  Words positive{};  // those with positive label: the bias is the weight of an input that is 1
  for (Size word = 0; word < words; word++) {
    v.mask[word] &= state.active[word];
    total += count_bits(v.mask[word]);
    positive += count_bits(v.mask[word] & ~state.label_bits[word]);
  }
  // Below, half of (negative - positive) = total/2 - positive, in units of 2/batch.
  const Floats half = to_floats(total) * 0.5f;
  const float scale = 2.0f * state.loss.scale / static_cast<float>(state.batch);
  const Step step(state, rates, hidden_weight, scale, *v.output);
  const Floats rate = (rates.rate[hidden_weight] * scale) * *v.output;
  const float keep = rates.keep[hidden_weight];
  // Copies, because the compiler must assume that stores to weights change what `v` points to.
  Floats* const weight = v.weight;
  const Words* const mask = v.mask;
  const std::uint32_t* const by_input = state.by_input;
  const Size inputs = state.inputs;
  const Words first = mask[0];
  auto update = [&](Size j) {
    Words negative = count_bits(first & by_input[j]);
    if constexpr (!one_word) {
      for (Size word = 1; word < words; word++) {
        negative += count_bits(mask[word] & by_input[word * stride + j]);
      }
    }
    const Floats sum = to_floats(negative) - half;
    const Floats w = weight[j];
    weight[j] = plain ? keep * w - rate * sum : step.moved(weight + j, sum);
    return w * sum;
  };
  // Several sums, so that none waits for the previous one.
  Floats dots[4] = {};
  Size j = 0;
  for (; j + 4 <= inputs; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) dots[i] += update(j + i);
  }
  for (; j < inputs; j++) dots[0] += update(j);
  const Floats dot = (dots[0] + dots[1]) + (dots[2] + dots[3]);
  update_rest(state, v, rates, half - to_floats(positive), dot, scale);
}

// Other losses: for each group of four examples a table of the 16 signed sums of their gradients
// (masked by who fired), for bits of the sums over subsets; an input then costs one load and one
// addition per group.
template <int count>
ELEGANS_INLINE void sum_inputs(const State& state, const Floats* table, Size first, Size last,
                               Size j, Floats* sum) {
  const Size stride = state.sign_words * 32;
  const std::uint16_t* offset = state.by_input_offset + first * stride + j;
  for (Size group = first; group < last; group++) {
    add_entries<count>(table, offset, sum);
    table += 16;
    offset += stride;
  }
}

struct Slice {
  Size first, last;  // groups of examples
  bool first_slice, last_slice;
};

template <int count>
ELEGANS_INLINE void update_inputs(const State& state, const Vector& v, const Slice& slice,
                                  const Floats* table, Size j, const Step& step, Floats& dot) {
  Floats* gradient = reinterpret_cast<Floats*>(state.gradient) + j;
  Floats sum[count];
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) sum[i] = slice.first_slice ? Floats{} : gradient[i];
  sum_inputs<count>(state, table, slice.first, slice.last, j, sum);
  if (!slice.last_slice) {
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) gradient[i] = sum[i];
    return;
  }
  Floats* const weight = v.weight + j;  // a copy: see backward_counts
#pragma GCC unroll 8
  for (int i = 0; i < count; i++) {
    dot += weight[i] * sum[i];
    weight[i] = step.moved(weight + i, sum[i]);
  }
}

// Adds the gradients of a group of four examples to the sums for their controls.
ELEGANS_INLINE void add_to_controls(const State& state, Size group, const Floats* part,
                                    Floats* gradient) {
  const std::uint32_t* control = state.current.control + 4 * group;
#pragma GCC unroll 4
  for (int k = 0; k < 4; k++) gradient[control[k]] += part[k];
}

// Moves the weights of the control inputs, and clears the sums for them.
static void update_controls(const State& state, const Vector& v, const Step& step, Floats* gradient,
                            Floats& dot) {
  Floats* const weight = v.weight + 4 * state.groups;
  for (Size control = 0; control < state.controls; control++) {
    const Floats sum = gradient[control];
    gradient[control] = Floats{};
    dot += weight[control] * sum;
    weight[control] = step.moved(weight + control, sum);
  }
}

// The contribution of a group of four examples to the gradient of a vector's bias.
struct FiredGradients {
  const State& state;
  const Words* mask;
  void operator()(Size group, Floats* part) const {
    const Words fired = mask[group / 8];
    const float* grad = state.grad_output + 4 * group;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) part[k] = where_bit(fired, 1u << (group % 8 * 4 + k), grad[k]);
  }
};
struct StoredGradients {
  const Floats* grad;  // [examples]
  void operator()(Size group, Floats* part) const {
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) part[k] = grad[4 * group + k];
  }
};

// The sums over examples for the bias, and the sum of weights times their sums.
struct Sums {
  Floats bias, dot;
};

template <bool signs, class Gradients>
ELEGANS_INLINE Sums backward_tables(const State& state, const Vector& v, const Rates& rates,
                                    const Gradients& grads) {
  Floats* table = reinterpret_cast<Floats*>(state.table);
  [[maybe_unused]] Floats* const by_control =
      reinterpret_cast<Floats*>(state.gradient) + 4 * state.groups;
  const Step step(state, rates, hidden_weight, 1.0f, *v.output);
  const Size groups = (state.batch + 3) / 4;
  const Size slices = (groups + table_groups - 1) / table_groups;
  Floats dot{};
  Floats bias_sum{};
  for (Size i = 0; i < slices; i++) {
    const Slice slice{groups * i / slices, groups * (i + 1) / slices, i == 0, i + 1 == slices};
    for (Size group = slice.first; group < slice.last; group++) {
      Floats part[4];
      grads(group, part);
      bias_sum += (part[0] + part[1]) + (part[2] + part[3]);
      if constexpr (!signs) add_to_controls(state, group, part, by_control);
      tabulate<signs>(part[0], part[1], part[2], part[3], table + (group - slice.first) * 16);
    }
    Size j = 0;
    for (; j + 8 <= state.inputs; j += 8) {
      update_inputs<8>(state, v, slice, table, j, step, dot);
    }
    for (; j < state.inputs; j++) {
      update_inputs<1>(state, v, slice, table, j, step, dot);
    }
  }
  if constexpr (!signs) update_controls(state, v, step, by_control, dot);
  return {bias_sum, dot};
}

template <class Gradients>
ELEGANS_INLINE Sums backward_sums(const State& state, const Vector& v, const Rates& rates,
                                  const Gradients& grads) {
  return state.controls ? backward_tables<false>(state, v, rates, grads)
                        : backward_tables<true>(state, v, rates, grads);
}

static void backward_relu(const State& state, const Vector& v, const Rates& rates) {
  const Sums sums = backward_sums(state, v, rates, FiredGradients{state, v.mask});
  update_rest(state, v, rates, sums.bias, sums.dot, 1.0f);
}

// Any other activation: the output weights' gradient is a sum over the values themselves.
static void backward_general(const State& state, Size vector, const Vector& v, const Rates& rates) {
  Floats* stored = kept_of(state, vector);
  const Floats value_sum = where(real_lanes(state, vector), differentiate(state, stored));
  const Sums sums = backward_sums(state, v, rates, StoredGradients{stored});
  *v.bias = Step(state, rates, hidden_bias, 1.0f, *v.output).moved(v.bias, sums.bias);
  *v.output = Step(state, rates, output_weight, 1.0f, spread(1.0f)).moved(v.output, value_sum);
}

// Not inlined, for the reason given at forward().
[[gnu::noinline]] static void backward(const State& state, Size vector, const Rates& rates) {
  const Vector v = vector_of(state, vector);
  if (state.activation != Activation::relu) {
    backward_general(state, vector, v, rates);
  } else if (!counts(state)) {
    backward_relu(state, v, rates);
  } else if (state.keeps || state.collected) {
    backward_counts<false, false>(state, v, rates);
  } else if (state.mask_words == 1) {
    backward_counts<true, true>(state, v, rates);
  } else {
    backward_counts<false, true>(state, v, rates);
  }
}

// Calls `function` with the place and kind of each of a vector's parameters.
template <class Function>
ELEGANS_INLINE void each_parameter(const State& state, Size vector, Function function) {
  const Vector v = vector_of(state, vector);
  for (Size row = 0; row < state.rows; row++) function(v.weight + row, hidden_weight);
  function(v.bias, hidden_bias);
  function(v.output, output_weight);
}

// The factor that shortens the collected gradient, and that of the output bias, to the largest
// norm.
[[maybe_unused]] static float clipping(const State& state, float bias_gradient) {
  double squares = state.present[output_bias]
                       ? static_cast<double>(bias_gradient) * static_cast<double>(bias_gradient)
                       : 0.0;
  for (Size k = 0; k < state.vectors; k++) {
    Floats sum{};
    each_parameter(state, k, [&](const Floats* place, Parameter kind) {
      const Size at = reinterpret_cast<const float*>(place) - state.weight;
      const Floats gradient = load_floats(state.collected + at);
      if (state.present[kind]) sum += gradient * gradient;
    });
    squares += static_cast<double>(lane_sum(sum));
  }
  const double scale = state.clip / (__builtin_sqrt(squares) + 1e-6);
  return scale < 1 ? static_cast<float>(scale) : 1.0f;
}

// Moves a vector's parameters along the collected gradient times `scale`.
[[gnu::noinline]] static void move(const State& state, Size vector, const Rates& rates,
                                   float scale) {
  each_parameter(state, vector, [&](Floats* place, Parameter kind) {
    const Size at = reinterpret_cast<const float*>(place) - state.weight;
    *place = rates.moved(kind, *place, at, load_floats(state.collected + at) * scale);
  });
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
