// What kernels of networks on pairs share: neurons, minibatches, losses and the loop over tiles.
#pragma once

#include "activations.hpp"
#include "elementary.hpp"
#include "pair_types.hpp"
#include "threefry.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

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
ELEGANS_INLINE void with_neurons(Activation activation, int degree, Function function) {
  if (activation == Activation::relu) return function(Relu{});
  if (degree == 2) return function(Square{});
  function(Power{degree});
}

struct PairTotals {
  bool finite;
  float loss, wrong;
};

// Replaces the outputs on a tile by the derivatives of the mean cross-entropy by them, zero beyond
// `count`, and returns the sums of its terms. The right class's derivative is minus the sum of the
// others', so that small error probabilities are not lost beside 1.
template <class State>
PairTotals cross_entropy(const State& state, const Pairs& pairs, Size count) {
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
template <class State>
PairTotals square_error(const State& state, const Pairs& pairs, Size count) {
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

// The beginnings of the rows of the first `count` pairs, which are `row` apart, and their labels,
// by their numbers.
template <class State>
void find_rows(const State& state, const Pairs& pairs, Size count, Size row) {
  const auto order = static_cast<std::uint32_t>(state.order);
  for (Size p = 0; p < count; p++) {
    const std::uint32_t left = pairs.number[p] / order;
    const std::uint32_t right = pairs.number[p] % order;
    pairs.left[p] = static_cast<std::int32_t>(left * static_cast<std::uint32_t>(row));
    pairs.right[p] = static_cast<std::int32_t>((order + right) * static_cast<std::uint32_t>(row));
    pairs.label[p] = state.table[pairs.number[p]];
  }
}

// The numbers of the pairs of a step: those given, all in order, or those drawn for the examples of
// the step.
template <class State>
void minibatch(const State& state, std::uint64_t step, std::uint32_t* number) {
  if (state.given) {
    for (Size q = 0; q < state.batch; q++) number[q] = state.given[q];
    return;
  }
  const Words lane = lane_numbers();
  const auto first = static_cast<std::uint32_t>(step * static_cast<std::uint64_t>(state.batch));
  const auto bound = static_cast<std::uint64_t>(state.order * state.order);
  for (Size q = 0; q < state.batch; q += lanes) {
    const Words place = lane + static_cast<std::uint32_t>(q);
    if (state.population) {  // beyond the last pair stands the first
      store_words(number + q, place & (Words)(place < static_cast<std::uint32_t>(bound)));
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

// Calls `forward` and `backward` with each tile of the pairs of a step, and adds to the sums of
// loss and error; false if the outputs are not finite.
template <class State, class Forward, class Backward>
bool each_tile(State& state, Size row, Forward forward, Backward backward) {
  if (!state.population || state.fresh) {
    minibatch(state, state.step, state.current.number);
    find_rows(state, state.current, state.batch, row);
    state.fresh = false;
  }
  double loss = 0;
  double wrong = 0;
  for (Size place = 0; place < state.batch; place += pair_tile) {
    const Size left = state.batch - place;
    const Size count = left < pair_tile ? left : pair_tile;
    const Pairs& all = state.current;
    const Pairs pairs = {all.number + place, all.left + place, all.right + place,
                         all.label + place};
    forward(pairs, count);
    const PairTotals totals = state.loss == PairLoss::square ? square_error(state, pairs, count)
                                                             : cross_entropy(state, pairs, count);
    if (!totals.finite) return false;
    loss += totals.loss;
    wrong += totals.wrong;
    backward(pairs, count);
  }
  state.loss_sum += loss / static_cast<double>(state.batch);
  state.error_sum += wrong / static_cast<double>(state.batch);
  return true;
}

// Takes up to `steps` steps by `step`, which returns false if the network diverged.
template <class State, class Step>
Size take_steps(State& state, const float* factors, Size steps, Step step) {
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

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
