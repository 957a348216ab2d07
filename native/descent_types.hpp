// The plain data of networks in which every parameter has its own learning rate and weight decay.
// As in types.hpp, nothing here has a function body.
#pragma once

#include "types.hpp"

namespace elegans {

struct DescentState : NetworkState, Moments {
  Size size;  // of all parameters
  float* parameter;
  float *learning_rate, *decay;  // [size]
  bool decay_in_gradient;
};

}  // namespace elegans
