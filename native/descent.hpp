// Updates of networks in which every parameter has its own learning rate and weight decay.
#pragma once

#include "descent_types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// The direction in which a step (counted from 0) moves: that of Kingma and Ba (2015), a sum of
// gradients that fade (momentum, also Nesterov's, in PyTorch's form), or the gradient itself.
class Direction {
 public:
  Direction(const Moments& moments, std::uint64_t step)
      : moments_(moments),
        adaptive_(moments.optimiser == Optimiser::adam),
        first_scale_(adaptive_ ? unbiased(moments.beta1, step) : 1.0f),
        second_scale_(adaptive_ ? unbiased(moments.beta2, step) : 1.0f),
        old_first_(static_cast<float>(moments.beta1)),
        new_first_(static_cast<float>(1 - moments.beta1)),
        old_second_(static_cast<float>(moments.beta2)),
        new_second_(static_cast<float>(1 - moments.beta2)),
        epsilon_(static_cast<float>(moments.epsilon)) {}

  // Of the vector of parameters at `place`, whose moments are updated.
  ELEGANS_INLINE Floats operator()(Size place, Floats gradient) const {
    if (!moments_.keeps) return gradient;
    float* kept_first = moments_.first + place;
    if (!adaptive_) {
      const Floats velocity = old_first_ * load_floats(kept_first) + gradient;
      store_floats(kept_first, velocity);
      return moments_.optimiser == Optimiser::nesterov ? gradient + old_first_ * velocity
                                                       : velocity;
    }
    float* kept_second = moments_.second + place;
    const Floats first = old_first_ * load_floats(kept_first) + new_first_ * gradient;
    const Floats second =
        old_second_ * load_floats(kept_second) + new_second_ * gradient * gradient;
    store_floats(kept_first, first);
    store_floats(kept_second, second);
    return first * first_scale_ / (root(second * second_scale_) + epsilon_);
  }

  // 1 if weight decay is part of the gradient that momentum keeps, else 0.
  float kept_decay(bool decay_in_gradient) const {
    return decay_in_gradient && moments_.keeps && !adaptive_ ? 1.0f : 0.0f;
  }

 private:
  static float unbiased(double beta, std::uint64_t step) {
    return static_cast<float>(1 / (1 - __builtin_pow(beta, static_cast<double>(step + 1))));
  }

  const Moments& moments_;
  bool adaptive_;
  float first_scale_, second_scale_, old_first_, new_first_, old_second_, new_second_, epsilon_;
};

// A step of any optimiser; with Adam, the decay of Loshchilov and Hutter (2019). Arrays are whole
// vectors; `grad` gives those of the gradient.
template <class Gradient>
void descend(const DescentState& state, float factor, Gradient grad) {
  const Direction towards(state, state.step);
  const float kept = towards.kept_decay(state.decay_in_gradient);
  for (Size p = 0; p < state.size; p += lanes) {
    const Floats rate = load_floats(state.learning_rate + p) * factor;
    const Floats decay = load_floats(state.decay + p);
    const Floats keep = 1.0f - (state.decay_in_gradient ? (1.0f - kept) * rate * decay : decay);
    const Floats x = load_floats(state.parameter + p);
    const Floats direction = towards(p, grad(p) + kept * decay * x);
    store_floats(state.parameter + p, keep * x - rate * direction);
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
