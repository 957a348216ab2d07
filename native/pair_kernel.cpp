// Networks on pairs: one step is three products of matrices, done tile by tile of pairs.
//
// A tile's outputs are W times the neurons' values, with pairs in the lanes, so that softmax and
// loss run over the classes without a remainder. In the backward pass neurons are in the lanes: the
// derivatives by the values are G' W and those by W are V' G. Values are computed twice, once for
// each direction, which costs less than keeping them. All sums have a fixed order. This file is
// compiled once for each instruction set.
#include "activations.hpp"
#include "descent.hpp"
#include "elementary.hpp"
#include "pair_types.hpp"
#include "products.hpp"
#include "threefry.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

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
  template <Size row_stride, Size number_stride, Size vector_stride>
  ELEGANS_INLINE void add_products(const float* numbers, const float* vectors, Size count) {
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

struct Relu {
  ELEGANS_INLINE Floats value(Floats z) const { return where(~(Ints)(z <= 0.0f), z); }
  ELEGANS_INLINE Both both(Floats z) const {
    return {value(z), where((Ints)(z > 0.0f), spread(1.0f))};
  }
};

struct Square {
  ELEGANS_INLINE Floats value(Floats z) const { return z * z; }
  ELEGANS_INLINE Both both(Floats z) const { return {z * z, z + z}; }
};

template <class Function>
ELEGANS_INLINE void with_neurons(const PairState& state, Function function) {
  if (state.activation == Activation::relu) return function(Relu{});
  if (state.degree == 2) return function(Square{});
  function(Power{state.degree});
}

ELEGANS_INLINE float* block_of(float* array, const PairState& state, Size block) {
  return array + block * state.rows * pair_block;
}
ELEGANS_INLINE const float* output_rows(const PairState& state, Size block) {
  return block_of(state.parameter, state, block) + 2 * state.order * pair_block;
}
ELEGANS_INLINE Size real_neurons(const PairState& state, Size block) {
  const Size left = state.width - block * pair_block;
  return left < pair_block ? left : pair_block;
}

// The values of one block's neurons on a tile, with pairs in the lanes.
void values_by_pair(const PairState& state, Size block, const Pairs& pairs, Size count,
                    float* value_by_pair) {
  const float* rows = block_of(state.parameter, state, block);
  with_neurons(state, [=](auto neuron) {
    for (Size p = 0; p < count; p += lanes) {
      for (Size i = 0; i < pair_block; i += lanes) {
        Floats x[lanes];
#pragma GCC unroll 16
        for (Size l = 0; l < lanes; l++) {
          x[l] = neuron.value(load_floats(rows + pairs.left[p + l] + i) +
                              load_floats(rows + pairs.right[p + l] + i));
        }
        transpose(x);
#pragma GCC unroll 16
        for (Size l = 0; l < lanes; l++)
          store_floats(value_by_pair + (i + l) * pair_tile + p, x[l]);
      }
    }
  });
}

// The outputs on a tile of pairs: up to pair_tile of them.
void forward(const PairState& state, const Pairs& pairs, Size count) {
  for (Size group = 0; group < state.blocks; group += pair_group) {
    const Size left = state.blocks - group;
    const Size blocks = left < pair_group ? left : pair_group;
    for (Size b = 0; b < blocks; b++) {
      values_by_pair(state, group + b, pairs, count,
                     state.value_by_pair + b * pair_block * pair_tile);
    }
    for (Size p = 0; p < count; p += column) {
      in_rows(state.order, [&, group, blocks, p](auto rows, Size c) {
        Patch<rows.value> sums;
        float* place = state.output + c * pair_tile + p;
        if (group == 0) {
          sums.clear();
        } else {
          sums.load(place, pair_tile);
        }
        for (Size b = 0; b < blocks; b++) {
          sums.template add_products<pair_block, 1, pair_tile>(
              output_rows(state, group + b) + c * pair_block,
              state.value_by_pair + b * pair_block * pair_tile + p, real_neurons(state, group + b));
        }
        sums.store(place, pair_tile);
      });
    }
  }
}

struct PairTotals {
  bool finite;
  float loss, wrong;
};

// Replaces the outputs on a tile by the derivatives of the mean cross-entropy by them, zero beyond
// `count`, and returns the sums of its terms. The right class's derivative is minus the sum of the
// others', so that small error probabilities are not lost beside 1.
PairTotals cross_entropy(const PairState& state, const Pairs& pairs, Size count) {
  const float share = 1.0f / static_cast<float>(state.batch);
  const float infinity = __builtin_inff();
  Floats loss{};
  Floats wrong{};
  Ints infinite{};
  for (Size p = 0; p < count; p += lanes) {
    const Ints real =
        (Ints)((Ints)lane_numbers() < (Ints)spread(static_cast<std::uint32_t>(count - p)));
    const Ints label = (Ints)load_words(reinterpret_cast<const std::uint32_t*>(pairs.label + p));
    Floats own{};
    Floats other = spread(-infinity);
    for (Size c = 0; c < state.order; c++) {
      const Floats f = load_floats(state.output + c * pair_tile + p);
      const Ints is_own = (Ints)(label == static_cast<std::int32_t>(c));
      infinite |= real & (Ints)(f - f != 0.0f);
      own = choose(is_own, f, own);
      other = choose(~is_own & (Ints)(f > other), f, other);
    }
    const Floats top = choose((Ints)(own > other), own, other);
    Floats others{};
    for (Size c = 0; c < state.order; c++) {
      float* place = state.output + c * pair_tile + p;
      const Ints is_own = (Ints)(label == static_cast<std::int32_t>(c));
      const Floats e = where(~is_own, exp_negative(load_floats(place) - top));
      others += e;
      store_floats(place, e);
    }
    const Floats total = others + exp_negative(own - top);
    const Floats scale = where(real, share / total);
    for (Size c = 0; c < state.order; c++) {
      float* place = state.output + c * pair_tile + p;
      const Ints is_own = (Ints)(label == static_cast<std::int32_t>(c));
      store_floats(place, scale * choose(is_own, negated(others), load_floats(place)));
    }
    const Ints sure = (Ints)(own > other) & (Ints)(others < 1.0f);
    loss += where(real, choose(sure, log_one_plus(others), log_from_one(total) + (top - own)));
    wrong += where(real & ~(Ints)(own > other), spread(1.0f));
  }
  return {sign_bits((Words)infinite) == 0, lane_sum(loss), lane_sum(wrong)};
}

// The same with the square loss of one-hot targets.
PairTotals square_error(const PairState& state, const Pairs& pairs, Size count) {
  const float scale = state.loss_scale / static_cast<float>(state.batch);
  const float infinity = __builtin_inff();
  Floats loss{};
  Floats wrong{};
  Ints infinite{};
  for (Size p = 0; p < count; p += lanes) {
    const Ints real =
        (Ints)((Ints)lane_numbers() < (Ints)spread(static_cast<std::uint32_t>(count - p)));
    const Ints label = (Ints)load_words(reinterpret_cast<const std::uint32_t*>(pairs.label + p));
    Floats own{};
    Floats other = spread(-infinity);
    Floats squares{};
    for (Size c = 0; c < state.order; c++) {
      float* place = state.output + c * pair_tile + p;
      const Floats f = load_floats(place);
      const Ints is_own = (Ints)(label == static_cast<std::int32_t>(c));
      infinite |= real & (Ints)(f - f != 0.0f);
      own = choose(is_own, f, own);
      other = choose(~is_own & (Ints)(f > other), f, other);
      const Floats missed = f - where(is_own, spread(1.0f));
      squares += missed * missed;
      store_floats(place, where(real, scale * missed));
    }
    loss += where(real, 0.5f * state.loss_scale * squares);
    wrong += where(real & ~(Ints)(own > other), spread(1.0f));
  }
  return {sign_bits((Words)infinite) == 0, lane_sum(loss), lane_sum(wrong)};
}

// Adds to the gradients of u and v of a block's neurons on a tile.
void hidden_gradients(const PairState& state, Size block, const Pairs& pairs, Size count) {
  float* gradient = block_of(state.gradient, state, block);
  const float* weights = output_rows(state, block);
  for (Size i = 0; i < real_neurons(state, block); i += column) {
    in_rows(count, [&, gradient, i](auto rows, Size p) {
      Patch<rows.value> sums;
      sums.clear();
      sums.template add_products<1, pair_tile, pair_block>(state.output + p, weights + i,
                                                           state.order);
      const bool same = state.population && pairs.left[p] == pairs.left[p + rows.value - 1];
      Floats left[2] = {};
#pragma GCC unroll 12
      for (int r = 0; r < rows.value; r++) {
#pragma GCC unroll 2
        for (Size half = 0; half < 2; half++) {
          const Size at = i + half * lanes;
          const Floats grad =
              sums.at[r][half] * load_floats(state.derivative + (p + r) * pair_block + at);
          float* right = gradient + pairs.right[p + r] + at;
          store_floats(right, load_floats(right) + grad);
          left[half] += grad;
          if (!same || r + 1 == rows.value) {
            float* place = gradient + pairs.left[p + r] + at;
            store_floats(place, load_floats(place) + left[half]);
            left[half] = Floats{};
          }
        }
      }
    });
  }
}

// Adds the contribution of a block's values on a tile to the gradient of w.
void output_gradients(const PairState& state, Size block, Size count) {
  float* gradient = block_of(state.gradient, state, block) + 2 * state.order * pair_block;
  for (Size i = 0; i < real_neurons(state, block); i += column) {
    in_rows(state.order, [&, gradient, i](auto rows, Size c) {
      Patch<rows.value> sums;
      float* place = gradient + c * pair_block + i;
      sums.load(place, pair_block);
      sums.template add_products<pair_tile, 1, pair_block>(state.output + c * pair_tile,
                                                           state.value + i, count);
      sums.store(place, pair_block);
    });
  }
}

void backward(const PairState& state, const Pairs& pairs, Size count) {
  for (Size block = 0; block < state.blocks; block++) {
    const float* rows = block_of(state.parameter, state, block);
    with_neurons(state, [&, rows](auto neuron) {
      for (Size p = 0; p < count; p++) {
        for (Size i = 0; i < real_neurons(state, block); i += lanes) {
          const Both both = neuron.both(load_floats(rows + pairs.left[p] + i) +
                                        load_floats(rows + pairs.right[p] + i));
          store_floats(state.value + p * pair_block + i, both.value);
          store_floats(state.derivative + p * pair_block + i, both.derivative);
        }
      }
    });
    hidden_gradients(state, block, pairs, count);
    output_gradients(state, block, count);
  }
}

// x^exponent for x >= 0; 0 if x is 0, even for a negative exponent: no penalty moves an absent
// neuron.
ELEGANS_INLINE float power_of(float x, float exponent) {
  if (exponent == 0.0f) return 1.0f;
  if (exponent == 1.0f) return x;
  return x > 0.0f ? __builtin_powf(x, exponent) : 0.0f;
}

// Sets state.strength to the factors of neurons in the penalty's gradient: penalty * r *
// |all|^(r - b) * |neuron|^(b - 2), with |all| the b-norm of the neurons' norms.
void penalise(const PairState& state) {
  const bool plain = state.penalty_exponent == state.penalty_norm;  // |all| is to the power of 0
  float sum = 0;
  for (Size block = 0; block < state.blocks; block++) {
    float* strength = state.strength + block * pair_block;
    const float* rows = block_of(state.parameter, state, block);
    for (Size i = 0; i < pair_block; i += lanes) {
      Floats squares{};
      for (Size row = 0; row < state.rows; row++) {
        const Floats x = load_floats(rows + row * pair_block + i);
        squares += x * x;
      }
      store_floats(strength + i, squares);
    }
    for (Size i = 0; i < pair_block; i++) {
      const float norm = __builtin_sqrtf(strength[i]);
      if (!plain) sum += power_of(norm, state.penalty_norm);
      strength[i] = power_of(norm, state.penalty_norm - 2.0f);
    }
  }
  float factor = state.penalty * state.penalty_exponent;
  if (!plain) factor *= power_of(sum, state.penalty_exponent / state.penalty_norm - 1.0f);
  for (Size i = 0; i < state.blocks * pair_block; i++) state.strength[i] *= factor;
}

// Updates the parameters, and clears the gradient.
void update(const PairState& state, float factor) {
  if (state.penalty > 0.0f) penalise(state);
  const Direction towards(state, state.step);
  for (Size block = 0; block < state.blocks; block++) {
    float* rows = block_of(state.parameter, state, block);
    float* gradients = block_of(state.gradient, state, block);
    for (Size row = 0; row < state.rows; row++) {
      const int layer = row < 2 * state.order ? 0 : 1;
      const float rate = state.learning_rate[layer] * factor;
      const float keep = 1.0f - (state.decay_in_gradient ? rate : 1.0f) * state.decay[layer];
      for (Size i = 0; i < pair_block; i += lanes) {
        const Floats strength = load_floats(state.strength + block * pair_block + i);
        float* place = rows + row * pair_block + i;
        float* gradient = gradients + row * pair_block + i;
        const Floats x = load_floats(place);
        const Floats direction =
            towards(place - state.parameter, load_floats(gradient) + strength * x);
        store_floats(place, keep * x - rate * direction);
        store_floats(gradient, Floats{});
      }
    }
  }
}

// The beginnings of the rows of the first `count` pairs, and their labels, by their numbers.
void find_rows(const PairState& state, const Pairs& pairs, Size count) {
  const auto order = static_cast<std::uint32_t>(state.order);
  for (Size p = 0; p < count; p++) {
    const std::uint32_t left = pairs.number[p] / order;
    const std::uint32_t right = pairs.number[p] % order;
    pairs.left[p] = static_cast<std::int32_t>(left * pair_block);
    pairs.right[p] = static_cast<std::int32_t>((order + right) * pair_block);
    pairs.label[p] = state.table[pairs.number[p]];
  }
}

// The numbers of the pairs of a step: those given, all in order, or those drawn for the examples of
// the step.
void minibatch(const PairState& state, std::uint64_t step, std::uint32_t* number) {
  if (state.given) {
    for (Size q = 0; q < state.batch; q++) number[q] = state.given[q];
    return;
  }
  const Words lane = lane_numbers();
  const auto first = static_cast<std::uint32_t>(step * static_cast<std::uint64_t>(state.batch));
  const auto bound = static_cast<std::uint64_t>(state.order * state.order);
  for (Size q = 0; q < state.batch; q += lanes) {
    const Words place = lane + static_cast<std::uint32_t>(q);
    if (state.population) {
      store_words(number + q, place);
      continue;
    }
    const Pair words = random_words(state.sample_key, place + first, Words{});
    for (Size i = 0; i < lanes; i++) {
      const std::uint64_t high = words.w0[i] * bound;
      const std::uint64_t low = (words.w1[i] * bound) >> 32;
      number[q + i] = static_cast<std::uint32_t>((high + low) >> 32);
    }
  }
}

ELEGANS_INLINE Pairs from_place(const Pairs& pairs, Size place) {
  return {pairs.number + place, pairs.left + place, pairs.right + place, pairs.label + place};
}

// One step, unless the outputs are not finite.
bool step(PairState& state, float factor) {
  if (!state.population || state.fresh) {
    minibatch(state, state.step, state.current.number);
    find_rows(state, state.current, state.batch);
    state.fresh = false;
  }
  double loss = 0;
  double wrong = 0;
  for (Size place = 0; place < state.batch; place += pair_tile) {
    const Size left = state.batch - place;
    const Size count = left < pair_tile ? left : pair_tile;
    const Pairs pairs = from_place(state.current, place);
    forward(state, pairs, count);
    const PairTotals totals = state.loss == PairLoss::square ? square_error(state, pairs, count)
                                                             : cross_entropy(state, pairs, count);
    if (!totals.finite) return false;
    loss += totals.loss;
    wrong += totals.wrong;
    backward(state, pairs, count);
  }
  update(state, factor);
  state.loss_sum += loss / static_cast<double>(state.batch);
  state.error_sum += wrong / static_cast<double>(state.batch);
  return true;
}

Size advance(PairState& state, const float* factors, Size steps) {
  for (Size done = 0; done < steps; done++) {
    if (!step(state, factors[done])) {
      state.diverged_at = static_cast<std::int64_t>(state.step);
      return done;
    }
    state.step++;
    if (state.given) state.given += state.batch;
  }
  return steps;
}

void outputs(PairState& state, Size count) {
  find_rows(state, state.test, count);
  forward(state, state.test, count);
}

}  // namespace

extern const PairKernel pair_kernel;
const PairKernel pair_kernel = {advance, outputs};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
