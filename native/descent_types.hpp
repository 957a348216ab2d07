// The plain data of networks in which every parameter has its own learning rate and weight decay.
// As in types.hpp, nothing here has a function body.
#pragma once

#include "types.hpp"

namespace elegans {

// What Adam keeps of earlier gradients, laid out as the parameters, and its constants.
struct Moments {
  float *first, *second;
  double beta1, beta2, epsilon;
  bool adaptive;  // else plain descent, which keeps nothing
};

struct DescentState : NetworkState, Moments {
  Size size;  // of all parameters
  float* parameter;
  float *learning_rate, *decay;  // [size]
  bool decay_in_gradient;
};

}  // namespace elegans
