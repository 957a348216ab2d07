// Updates of networks in which every parameter has its own learning rate and weight decay.
#pragma once

#include "descent_types.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {

// Kingma and Ba (2015) with the decay of Loshchilov and Hutter (2019), or plain descent. Arrays
// are whole vectors; `grad` gives those of the gradient.
template <class Gradient>
void adam_step(const DescentState& state, float factor, Gradient grad) {
  const double step = static_cast<double>(state.step + 1);
  const float first_scale = static_cast<float>(1 / (1 - __builtin_pow(state.beta1, step)));
  const float second_scale = static_cast<float>(1 / (1 - __builtin_pow(state.beta2, step)));
  const float old_first = static_cast<float>(state.beta1);
  const float new_first = static_cast<float>(1 - state.beta1);
  const float old_second = static_cast<float>(state.beta2);
  const float new_second = static_cast<float>(1 - state.beta2);
  const float epsilon = static_cast<float>(state.epsilon);
  for (Size p = 0; p < state.size; p += lanes) {
    Floats direction = grad(p);
    if (state.adaptive) {
      const Floats first = old_first * load_floats(state.first + p) + new_first * direction;
      const Floats second =
          old_second * load_floats(state.second + p) + new_second * direction * direction;
      store_floats(state.first + p, first);
      store_floats(state.second + p, second);
      direction = first * first_scale / (root(second * second_scale) + epsilon);
    }
    const Floats rate = load_floats(state.learning_rate + p) * factor;
    const Floats decay = load_floats(state.decay + p);
    const Floats keep = 1.0f - (state.decay_in_gradient ? rate * decay : decay);
    store_floats(state.parameter + p, keep * load_floats(state.parameter + p) - rate * direction);
  }
}

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
