// The plain data of a network on pairs: f(a, b)[c] = sum over neurons of act(u(a) + v(b)) w(c),
// where a, b and c are elements of a finite set and the right c is given by a table. As in
// types.hpp, nothing here has a function body.
#pragma once

#include "descent_types.hpp"

namespace elegans {

constexpr Size pair_block = 32;  // adjacent neurons: whole vectors of every instruction set
constexpr Size pair_tile = 96;   // pairs that are processed at once
constexpr Size pair_group = 4;   // blocks of neurons whose values on a tile fill the cache

// Pairs in the kernel's form; there are entries up to a multiple of a vector.
struct Pairs {
  std::uint32_t* number;  // [capacity]: a * order + b
  std::int32_t* left;     // [capacity]: where the row u(a) begins in a block
  std::int32_t* right;    // [capacity]: the same for v(b)
  std::int32_t* label;    // [capacity]
};

// Of the outputs f and the right class y: -log softmax(f)_y, or scale |f - e_y|^2 / 2.
enum class PairLoss { cross_entropy, square };

// What any network on pairs has besides its parameters: the task, the loss and the minibatches.
struct PairTask {
  Size order;
  bool population;      // every pair once per step, in order; else fresh pairs
  std::int32_t* table;  // [order][order]
  PairLoss loss;
  float loss_scale;  // of the square loss
  Key sample_key;

  bool fresh;                  // the pairs of `current` have not been looked up yet
  const std::uint32_t* given;  // [steps][batch]: the pairs of the next steps, or null: drawn
  Pairs current;               // [batch]
  Pairs test;                  // [pair_tile]
  float* output;  // [order][pair_tile]: the outputs, then the loss's derivatives by them
};

// The functions of one instruction set for networks of one kind.
template <class State>
struct PairFunctions {
  // Takes up to `steps` steps, fewer if the network diverges; adds to loss_sum and error_sum.
  Size (*advance)(State& state, const float* factors, Size steps);
  // Outputs on the first `count` (at most pair_tile) pairs of state.test, into state.output.
  void (*outputs)(State& state, Size count);
};

// Everything that a kernel needs of one network of two layers. Neurons beyond the real ones are
// zero and stay zero.
struct PairState : NetworkState, Moments, PairTask {
  Size width;
  Size blocks;
  Size rows;  // 3 * order

  float* parameter;  // [blocks][rows][pair_block]: in each block the rows of u, then v, then w
  float* gradient;   // the same; zero between steps
  float* strength;   // [blocks][pair_block]: the factor of a neuron in the penalty's gradient

  Activation activation;  // a ReLU or a power
  int degree;

  float learning_rate[2], decay[2];  // of u and v, and of w
  bool decay_in_gradient;
  float penalty;  // strength, and the two exponents: penalty * (sum |neuron|^b)^(r/b)
  float penalty_norm, penalty_exponent;

  float* value_by_pair;  // [pair_group * pair_block][pair_tile]: values of neurons, lanes are pairs
  float* value;          // [pair_tile][pair_block]: the same for one block, lanes are neurons
  float* derivative;     // [pair_tile][pair_block]: the derivatives
};

struct PairKernel : PairFunctions<PairState> {};

}  // namespace elegans
