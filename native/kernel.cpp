// The engine for one instruction set: this file is compiled once for each.
//
// It must not include headers with inline functions that other files use too (see types.hpp).
#include "activations.hpp"
#include "backward.hpp"
#include "descent.hpp"
#include "draws.hpp"
#include "forward.hpp"
#include "losses.hpp"
#include "threefry.hpp"
#include "types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

void words(Key key, const std::uint32_t* c0, const std::uint32_t* c1, Size count, std::uint32_t* w0,
           std::uint32_t* w1) {
  Size i = 0;
  for (; i + lanes <= count; i += lanes) {
    const Pair pair = random_words(key, load_words(c0 + i), load_words(c1 + i));
    store_words(w0 + i, pair.w0);
    store_words(w1 + i, pair.w1);
  }
  for (; i < count; i++) {
    w0[i] = c0[i];
    w1[i] = c1[i];
    threefry(key.k0, key.k1, w0[i], w1[i]);
  }
}

void draw_minibatch(State& state, Examples& examples, std::uint64_t step) {
  minibatch(state, step, examples.index);
  draw(state, state.sample_key, true, examples, state.batch);
}

// Sends the first `count` examples through one vector of neurons, by tables or, if there are few,
// as floats.
void forward_drawn(const State& state, Size vector, Examples& examples, Size count, bool kept) {
  forward(state, vector, examples, examples.sign, state.sign_words * 32, count, kept);
}

// Each iteration ends one step and begins the next: while a vector of neurons is in the first-level
// cache it is updated by the backward pass of this step and immediately used in the forward pass of
// the next, so that weights are read from memory once per step.
Size advance(State& state, const float* factors, Size steps) {
  draw_minibatch(state, state.current, state.step);
  clear_partial(state, state.current, state.batch);
  for (Size k = 0; k < state.vectors; k++) {
    forward_drawn(state, k, state.current, state.batch, true);
  }
  for (Size done = 0;; done++) {
    outputs(state, state.current, state.batch);
    const Totals totals = losses(state, state.current);
    if (!totals.finite) {
      state.diverged_at = static_cast<std::int64_t>(state.step);
      return done;
    }
    state.loss_sum += totals.loss;
    state.error_sum += totals.wrong;
    const bool last = done + 1 == steps;
    const Rates rates = rates_of(state, factors[done]);
    const bool update = !(totals.flat && rates.idle);
    if (update) prepare_backward(state, state.current);
    if (!last) {
      draw_minibatch(state, state.next, state.step + 1);
      clear_partial(state, state.next, state.batch);
    }
    // A gradient that is clipped is needed as a whole first.
    float scale = 1.0f;
    if (update && state.collected) {
      for (Size k = 0; k < state.vectors; k++) backward(state, k, rates);
      scale = clipping(state, totals.grad);
    }
    for (Size k = 0; k < state.vectors; k++) {
      if (update && state.collected) {
        move(state, k, rates, scale);
      } else if (update) {
        backward(state, k, rates);
      }
      if (!last) forward_drawn(state, k, state.next, state.batch, true);
    }
    state.output_bias = rates.moved(output_bias, spread(state.output_bias), state.size,
                                    spread(totals.grad * scale))[0];
    state.step++;
    if (last) return done + 1;
    const Examples swap = state.current;
    state.current = state.next;
    state.next = swap;
  }
}

void evaluate(State& state, Key key, bool noisy, Size count) {
  draw(state, key, noisy, state.test, count);
  clear_partial(state, state.test, count);
  for (Size k = 0; k < state.vectors; k++) forward_drawn(state, k, state.test, count, false);
  outputs(state, state.test, count);
}

void predict(State& state, const float* inputs, Size count) {
  clear_partial(state, state.test, count);
  for (Size k = 0; k < state.vectors; k++) {
    forward(state, k, state.test, inputs, state.columns, count, false);
  }
  outputs(state, state.test, count);
}

void activate_all(const State& state, const float* z, Size count, float* value, float* derivative) {
  with_activation(state, [=](auto activation) {
    for (Size i = 0; i < count; i += lanes) {
      const auto size =
          static_cast<std::size_t>(count - i < lanes ? count - i : lanes) * sizeof(float);
      Floats part{};
      __builtin_memcpy(&part, z + i, size);
      const Both both = activation.both(part);
      __builtin_memcpy(value + i, &both.value, size);
      __builtin_memcpy(derivative + i, &both.derivative, size);
    }
  });
}

double multiply_add(Size repeats, float* sink) {
  // Enough chains to hide the latency of two multiply-adds per cycle, few enough for 16 registers.
  constexpr int chains = 12;
  Floats x[chains];
  for (int i = 0; i < chains; i++) x[i] = spread(static_cast<float>(i));
  Floats a = spread(0.999f);
  Floats b = spread(0.001f);
  // Hidden from the compiler, which must not see that the chains could be shortened.
  __asm__ volatile("" : "+m"(a), "+m"(b));
  for (Size r = 0; r < repeats; r++) {
#pragma GCC unroll 12
    for (int i = 0; i < chains; i++) x[i] = x[i] * a + b;
  }
  Floats sum{};
  for (int i = 0; i < chains; i++) sum += x[i];
  *sink = lane_sum(sum);
  return 2.0 * chains * static_cast<double>(lanes) * static_cast<double>(repeats);
}

}  // namespace

#define ELEGANS_TEXT_OF(x) #x
#define ELEGANS_TEXT(x) ELEGANS_TEXT_OF(x)

extern const PairKernel pair_kernel;
extern const PairTransformerKernel pair_transformer_kernel;
extern const AttentionKernel attention_kernel;
extern const BitsKernel bits_kernel;
extern const DenseKernel dense_kernel;
extern const SharedKernel shared_kernel;
extern const Kernel kernel;
const Kernel kernel = {ELEGANS_TEXT(ELEGANS_INSTRUCTION_SET),
                       lanes,
                       words,
                       minibatch,
                       advance,
                       evaluate,
                       predict,
                       activate_all,
                       multiply_add,
                       &pair_kernel,
                       &pair_transformer_kernel,
                       &attention_kernel,
                       &bits_kernel,
                       &dense_kernel,
                       &shared_kernel};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
