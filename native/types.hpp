// The plain data that every part of the engine shares.
//
// Nothing here has a function body: the kernels are compiled once per instruction set, and an
// inline function compiled with wide instructions could be the copy that the linker keeps for all
// files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace elegans {

using Size = std::ptrdiff_t;

struct Key {
  std::uint32_t k0;
  std::uint32_t k1;
};

enum class Order { online, replacement, epochs };
enum class LossKind { hinge, square, logistic, correlation };
struct Loss {
  LossKind kind;
  float scale;
};

// What neurons apply to their preactivations w x + b. A product network has no neurons: its output
// is the product of these.
enum class Activation {
  relu,
  relu6,
  leaky_relu,
  elu,
  tanh,
  sigmoid,
  silu,
  softplus,
  gelu,
  gelu_tanh,
  sine,
  power,
  zigzag,
  triangle_wave,
  polynomial,
  sinusoid,
  tabulated,
  product
};
// By the kinds of the classes of the Python package.
constexpr std::pair<const char*, Activation> activation_kinds[] = {
    {"relu", Activation::relu},
    {"relu6", Activation::relu6},
    {"leaky-relu", Activation::leaky_relu},
    {"elu", Activation::elu},
    {"tanh", Activation::tanh},
    {"sigmoid", Activation::sigmoid},
    {"silu", Activation::silu},
    {"softplus", Activation::softplus},
    {"gelu", Activation::gelu},
    {"gelu-tanh", Activation::gelu_tanh},
    {"sine", Activation::sine},
    {"power", Activation::power},
    {"zigzag", Activation::zigzag},
    {"triangle-wave", Activation::triangle_wave},
    {"oscillating-polynomial", Activation::polynomial},
    {"sinusoid", Activation::sinusoid},
    {"tabulated", Activation::tabulated},
    {"product", Activation::product}};
constexpr int largest_degree = 32;
constexpr Size largest_product = 64;
// Coefficients in descending degree, then a slope; the first and the last piece are without end.
constexpr Size table_rows = 9, table_pieces = 32;

// The parameter arrays, in the order in which learning rates and decays are given.
enum Parameter { hidden_weight, hidden_bias, output_weight, output_bias, parameter_count };

// The common part of the states of all networks in training.
struct NetworkState {
  Size lanes, batch;
  std::uint64_t step;
  std::int64_t diverged_at;  // -1: not
  double loss_sum, error_sum;
};

enum class Optimiser { sgd, momentum, nesterov, adam };

// What an optimiser keeps of earlier gradients, laid out as the parameters, and its constants.
struct Moments {
  float *first, *second;         // second: Adam's only
  double beta1, beta2, epsilon;  // beta1 is the momentum
  Optimiser optimiser;
  bool keeps;  // any of these; else a step needs nothing but the gradient
};

// A block of examples, with its inputs in the form for the forward pass.
struct Examples {
  Size capacity;           // a multiple of 32; every row below has this length
  std::uint32_t* index;    // [capacity]
  std::uint32_t* bits;     // [sign_words][capacity]: bit j%32 of row j/32 is set if input j is -1
  std::uint32_t* control;  // [capacity]: which control input is set, where there are any
  float* label;            // [capacity]: -1 or +1
  std::uint16_t* offset;   // [groups][capacity]: bytes into the table of a group of four inputs
  float* sign;             // [capacity][sign_words*32]: the inputs as floats, for small blocks only
  float* output;           // [capacity]: the network's outputs
  float* partial;          // [capacity][lanes]: the same, summed over the vectors of neurons only
};

// Everything that a kernel needs of one network. Lanes are neurons: hidden weights are
// [vectors][rows][lanes], so that a ReLU is a lane mask and no remainder loop depends on the number
// of inputs. Neurons and rows beyond the real ones are zero and stay zero.
struct State : NetworkState, Moments {
  Size inputs, width, vectors;
  Size controls;    // one-hot inputs besides; if there are any, the others are bits and not signs
  Size groups;      // groups of four inputs
  Size rows;        // 4 * groups, and those of the control inputs
  Size columns;     // of real inputs: `inputs`, or with control inputs `rows`
  Size sign_words;  // words of 32 inputs, an even number: one Threefry block gives two
  Size mask_words;  // words of 32 examples in a minibatch

  float* weight;  // [vectors][rows][lanes], followed in one block by the next two
  float* bias;    // [vectors][lanes]
  float* output;  // [vectors][lanes]
  Size size;      // of that block, behind which the moments of output_bias are, in every lane
  float output_bias;

  Activation activation;
  int degree;                             // of power, zigzag, triangle wave and sinusoid
  float scale;                            // a slope, a factor, a frequency or a length
  float* pieces;                          // [table_rows][table_pieces], of a tabulated one
  float coefficient[largest_degree + 1];  // of the polynomial, of degree 0 first
  float derivative_coefficient[largest_degree + 1];  // of its derivative

  Loss loss;
  Order order;
  float learning_rate[parameter_count];
  float decay[parameter_count];
  bool decay_in_gradient;         // else decays shrink parameters regardless of the rate
  double clip;                    // the largest norm of the gradient; infinite: any
  bool present[parameter_count];  // the arrays that the network has, whose gradients count in it
  float* collected;               // [size]: the whole gradient, if it is clipped
  Key sample_key, batches_key, noise_key;
  std::uint64_t sample_size;
  float noise;
  std::uint32_t* support;    // [sign_words]: the inputs whose product is the label
  std::uint32_t label_flip;  // 1 if the label is minus that product
  float* values;             // [2^places]: instead, the label by the signs of the support; or null
  std::uint32_t* place;      // [places]: the support, in increasing order
  Size places;
  float mix;                // the probability that all inputs of the support are equal
  float* cumulative;        // [controls]: the probabilities of the controls up to each one
  std::uint32_t* supports;  // [controls][support_size]: the inputs whose parity is the label
  Size support_size;

  Examples current,
      next;       // two minibatches: the next one's forward pass runs with this one's backward
  Examples test;  // the block in which the network is evaluated
  std::uint32_t*
      mask;     // [vectors][mask_words][lanes]: bit q%32 set where neuron fires on example q
  float* kept;  // [vectors][2][32*mask_words][lanes]: not needed by ReLUs
  std::uint32_t* active;      // [mask_words]: examples whose loss gradient is not zero
  std::uint32_t* label_bits;  // [mask_words]: examples whose label is -1
  std::uint32_t* by_input;    // [mask_words][sign_words*32]: the inputs, examples in the bits
  std::uint16_t*
      by_input_offset;  // [capacity/4][sign_words*32]: bytes into the table of four examples
  float* grad_output;   // [capacity]: derivative of the mean loss by each output
  float* table;         // [table_floats]
  float* hidden;        // [example_block][lanes]: sums carried from one block of inputs to the next
  float* gradient;      // [rows][lanes]: the same for the backward pass, and sums for controls

  // Epochs: the indices of the positions epoch_first ... epoch_first+epoch_count-1, computed ahead.
  std::uint64_t epoch_first;
  Size epoch_count, epoch_capacity;
  std::uint32_t *epoch_index, *epoch_k0, *epoch_k1, *epoch_value, *epoch_slot;
};

// Sizes on which memory and kernels must agree.
constexpr Size table_bytes = 16384;  // half of the smallest first-level cache in use
constexpr Size example_block = 384;
constexpr Size epoch_block = 256;
constexpr Size direct_batch = 9;  // below this many examples tables cost more than they save

struct PairKernel;  // see pair_types.hpp, and so for the others
struct PairTransformerKernel;
struct AttentionKernel;
struct BitsKernel;
struct DenseKernel;
struct SharedKernel;

// The functions of one instruction set.
struct Kernel {
  const char* name;
  Size lanes;
  void (*words)(Key key, const std::uint32_t* c0, const std::uint32_t* c1, Size count,
                std::uint32_t* w0, std::uint32_t* w1);
  // Indices of the minibatch of a step: room for state.current.capacity of them.
  void (*minibatch)(State& state, std::uint64_t step, std::uint32_t* index);
  // Takes up to `steps` steps, fewer if the network diverges; adds to loss_sum and error_sum.
  Size (*advance)(State& state, const float* factors, Size steps);
  // Outputs on the first `count` (at most example_block) examples, whose indices are in
  // state.test.
  void (*evaluate)(State& state, Key key, bool noisy, Size count);
  // Outputs on real inputs [count][inputs], count at most example_block, into state.test.output.
  void (*predict)(State& state, const float* inputs, Size count);
  // Values and derivatives of the state's activation, which is neither a ReLU nor a product.
  void (*activate)(const State& state, const float* z, Size count, float* value, float* derivative);
  // Runs chains of multiply-adds; returns the number of floating-point operations.
  double (*multiply_add)(Size repeats, float* sink);
  // The other networks.
  const PairKernel* pairs;
  const PairTransformerKernel* pair_transformers;
  const AttentionKernel* attention;
  const BitsKernel* bits;
  const DenseKernel* dense;
  const SharedKernel* shared;
};

}  // namespace elegans
