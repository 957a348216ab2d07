// Networks on pairs: one step is three products of matrices, done tile by tile of pairs.
//
// A tile's outputs are W times the neurons' values, with pairs in the lanes, so that softmax and
// loss run over the classes without a remainder. In the backward pass neurons are in the lanes: the
// derivatives by the values are G' W and those by W are V' G. Values are computed twice, once for
// each direction, which costs less than keeping them. All sums have a fixed order. This file is
// compiled once for each instruction set.
#include "descent.hpp"
#include "pairs.hpp"
#include "patches.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

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
  with_neurons(state.activation, state.degree, [=](auto neuron) {
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
          sums.template add_products<pair_block, 1>(
              output_rows(state, group + b) + c * pair_block,
              state.value_by_pair + b * pair_block * pair_tile + p, pair_tile,
              real_neurons(state, group + b));
        }
        sums.store(place, pair_tile);
      });
    }
  }
}

// Adds to the gradients of u and v of a block's neurons on a tile.
void hidden_gradients(const PairState& state, Size block, const Pairs& pairs, Size count) {
  float* gradient = block_of(state.gradient, state, block);
  const float* weights = output_rows(state, block);
  for (Size i = 0; i < real_neurons(state, block); i += column) {
    in_rows(count, [&, gradient, i](auto rows, Size p) {
      Patch<rows.value> sums;
      sums.clear();
      sums.template add_products<1, pair_tile>(state.output + p, weights + i, pair_block,
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
      sums.template add_products<pair_tile, 1>(state.output + c * pair_tile, state.value + i,
                                               pair_block, count);
      sums.store(place, pair_block);
    });
  }
}

void backward(const PairState& state, const Pairs& pairs, Size count) {
  for (Size block = 0; block < state.blocks; block++) {
    const float* rows = block_of(state.parameter, state, block);
    with_neurons(state.activation, state.degree, [&, rows](auto neuron) {
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
  const float kept = towards.kept_decay(state.decay_in_gradient);
  for (Size block = 0; block < state.blocks; block++) {
    float* rows = block_of(state.parameter, state, block);
    float* gradients = block_of(state.gradient, state, block);
    for (Size row = 0; row < state.rows; row++) {
      const int layer = row < 2 * state.order ? 0 : 1;
      const float rate = state.learning_rate[layer] * factor;
      const float share = state.decay_in_gradient ? (1.0f - kept) * rate : 1.0f;
      const float keep = 1.0f - share * state.decay[layer];
      const float pull = kept * state.decay[layer];
      for (Size i = 0; i < pair_block; i += lanes) {
        const Floats strength = load_floats(state.strength + block * pair_block + i);
        float* place = rows + row * pair_block + i;
        float* gradient = gradients + row * pair_block + i;
        const Floats x = load_floats(place);
        const Floats direction =
            towards(place - state.parameter, load_floats(gradient) + (strength + pull) * x);
        store_floats(place, keep * x - rate * direction);
        store_floats(gradient, Floats{});
      }
    }
  }
}

// One step, unless the outputs are not finite.
bool step(PairState& state, float factor) {
  const bool finite = each_tile(
      state, pair_block, [&](const Pairs& pairs, Size count) { forward(state, pairs, count); },
      [&](const Pairs& pairs, Size count) { backward(state, pairs, count); });
  if (finite) update(state, factor);
  return finite;
}

Size advance(PairState& state, const float* factors, Size steps) {
  return take_steps(state, factors, steps, step);
}

void outputs(PairState& state, Size count) {
  find_rows(state, state.test, count, pair_block);
  forward(state, state.test, count);
}

}  // namespace

extern const PairKernel pair_kernel;
const PairKernel pair_kernel = {{advance, outputs}};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
