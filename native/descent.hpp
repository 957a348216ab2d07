// Updates of networks in which every parameter has its own learning rate and weight decay.
#pragma once

#include "descent_types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// The direction in which a step (counted from 0) moves: that of Kingma and Ba (2015), or the
// gradient itself.
class Direction {
 public:
  Direction(const Moments& moments, std::uint64_t step)
      : moments_(moments),
        first_scale_(moments.adaptive ? unbiased(moments.beta1, step) : 1.0f),
        second_scale_(moments.adaptive ? unbiased(moments.beta2, step) : 1.0f),
        old_first_(static_cast<float>(moments.beta1)),
        new_first_(static_cast<float>(1 - moments.beta1)),
        old_second_(static_cast<float>(moments.beta2)),
        new_second_(static_cast<float>(1 - moments.beta2)),
        epsilon_(static_cast<float>(moments.epsilon)) {}

  // Of the vector of parameters at `place`, whose moments are updated.
  ELEGANS_INLINE Floats operator()(Size place, Floats gradient) const {
    if (!moments_.adaptive) return gradient;
    float* kept_first = moments_.first + place;
    float* kept_second = moments_.second + place;
    const Floats first = old_first_ * load_floats(kept_first) + new_first_ * gradient;
    const Floats second =
        old_second_ * load_floats(kept_second) + new_second_ * gradient * gradient;
    store_floats(kept_first, first);
    store_floats(kept_second, second);
    return first * first_scale_ / (root(second * second_scale_) + epsilon_);
  }

 private:
  static float unbiased(double beta, std::uint64_t step) {
    return static_cast<float>(1 / (1 - __builtin_pow(beta, static_cast<double>(step + 1))));
  }

  const Moments& moments_;
  float first_scale_, second_scale_, old_first_, new_first_, old_second_, new_second_, epsilon_;
};

// A step of AdamW, with the decay of Loshchilov and Hutter (2019), or of plain descent. Arrays are
// whole vectors; `grad` gives those of the gradient.
template <class Gradient>
void adam_step(const DescentState& state, float factor, Gradient grad) {
  const Direction towards(state, state.step);
  for (Size p = 0; p < state.size; p += lanes) {
    const Floats direction = towards(p, grad(p));
    const Floats rate = load_floats(state.learning_rate + p) * factor;
    const Floats decay = load_floats(state.decay + p);
    const Floats keep = 1.0f - (state.decay_in_gradient ? rate * decay : decay);
    store_floats(state.parameter + p, keep * load_floats(state.parameter + p) - rate * direction);
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
