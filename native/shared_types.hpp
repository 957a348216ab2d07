// Networks for tables whose members share a trunk: the plain data that the kernels and their
// callers share.
//
// Nothing here has a function body, for the reason given in types.hpp.
#pragma once

#include "dense_types.hpp"

namespace elegans {

constexpr Size shared_lanes = 16;  // widths are multiples of it; neurons beyond the real ones are 0
constexpr Size shared_chunk = 64;  // neurons of a task
constexpr Size norm_parts = 32;
constexpr Size embedding_size = 8;
constexpr std::uint16_t no_level = 0xFFFF;

// A column that is looked up: its first `bins` inputs are 1 before a row's bin, -1 after it and
// between in it; of the `levels` inputs after them at most one is 1 and the others are 0.
struct LookUp {
  std::int32_t column, bins, levels;
  Size first;  // row of `table` of the first input
};

// What a step consists of; the tasks of a phase are independent of each other.
enum class SharedPhase {
  gather,          // by member: the inputs of its rows
  first,           // by chunk of neurons: the first layer
  hidden,          // by chunk: a further layer
  outputs,         // by member
  losses,          // by member: outputs, losses and gradients of the heads
  backward,        // by chunk: a further layer's gradients, then those of the layer below
  first_backward,  // by chunk: the first layer's gradients, then by member those of dense inputs
  reduction,       // by member: gradients of factors; one more: of embeddings
  norm,            // by part of all parameters
  update
};

// All parameters are one row: look-up table [inputs][w], dense inputs [inputs][w], weights of
// further layers [outputs][inputs], heads [members][outputs][w], embeddings [levels][8], and,
// without decay, biases by layer, biases of heads, factors [members][columns].
template <class T>
struct Shared {
  Gemm<T> gemm;
  Size members, columns, layers, heads, look_ups, statics, embedded, dense;
  const Size* width;  // [layers]
  const LookUp* look_up;
  const std::int32_t* dense_column;  // [dense]: the column of each dense input
  Size table_rows;                   // of the largest look-up
  Head head;

  T *value, *gradient, *first, *second;  // [size]; the last three null where nothing is trained
  Size size, decayed;                    // the first `decayed` parameters have weight decay
  Size front, head_weight, embedding, head_bias, factor;  // offsets; the table's is 0
  const Size *weight, *bias;                              // offsets by layer; weight[0] is not used

  // the rows: look-ups' inputs and positions in their bins, dense inputs, levels of embeddings
  Size row_count, target_count;
  const std::uint16_t* code;  // [rows][look_ups], no_level where all inputs are 0
  const T* position;          // [rows][look_ups], 0 for levels
  const T* input;             // [rows][statics]
  const std::int32_t* level;  // [rows][embedded]
  const T* target;            // [rows][target_count]: a class, or a number for each output
  const T* row_weight;        // [rows], or null
  const std::int32_t* order;  // [members][rows], or null: the same rows for all
  Size begin, batch;          // the rows of this step, of each member

  // the step
  bool adaptive;
  double rate, decay, clip;
  std::uint64_t step;
  Key dropout_key;
  double dropout;

  // the memory of a step; rows by member
  std::uint16_t* batch_code;  // [look_ups][members * batch]
  T* batch_position;
  T *raw, *scaled, *raw_gradient;  // [members * batch][dense]; scaled: times the member's factors
  T *const *activation, *const *delta;  // by layer: [members * batch][w]
  T* output;                            // [members * batch][heads]
  T* output_gradient;
  T* scratch;         // by chunk: [3 * table_rows][shared_chunk]
  T* factor_partial;  // [chunks][look_ups][members]
  double* norm;       // [norm_parts]
  double* loss;       // [members]
};

// Functions of one instruction set: a task of a phase, of a layer.
struct SharedKernel {
  void (*run_single)(Shared<float>& net, SharedPhase phase, Size layer, Size task);
  void (*run_double)(Shared<double>& net, SharedPhase phase, Size layer, Size task);
};

}  // namespace elegans
