// The plain data of a transformer on the tokens a, b and "=" that is read out at the last. As in
// types.hpp, nothing here has a function body.
#pragma once

#include "pair_types.hpp"

namespace elegans {

constexpr Size pair_unit = 32;  // rows of padded arrays are multiples of this

// A matrix W as the products need it. Numbers stand in parts of a few rows, as `in_rows` takes
// them, and within a part column by column.
struct PairMatrix {
  Size first;  // where W begins in the row of parameters
  Size rows, columns;
  float* forward;   // W, in parts of rows
  float* backward;  // its transpose, in parts of rows
  Size stride;      // of a row of the gradient: `columns`, rounded up
  float* gradient;  // [rows][stride]
};

// Everything that a kernel needs of one network. Tokens are a (0 ... order-1), b (order ...
// 2*order-1) and "=". What a head adds to the stream is a sum over the three tokens of attention
// times a vector of the token alone, so that these vectors are computed once for each step.
struct PairTransformerState : DescentState, PairTask {
  Size width, heads, head_size, mlp_width;
  Size tokens;         // 2 * order + 1
  Size stride;         // width, rounded up
  Size head_stride;    // head_size, rounded up
  Size hidden_stride;  // mlp_width, rounded up
  Activation activation;
  int degree;

  // Where arrays begin in the row of parameters.
  Size number, equals, position, query, key, value, merge, hidden_bias, residual_bias;
  PairMatrix hidden, residual, unembed;  // [mlp_width][width], [width][mlp_width], [order][width]

  bool fresh_parameters;  // what follows has not been computed for the current parameters
  float* grad;            // [size]

  // By token, with their gradients.
  float *token, *grad_token;  // [tokens][stride]
  float *mixed, *grad_mixed;  // [tokens][heads][head_stride]: values
  float *added, *grad_added;  // [tokens][heads][stride]: values through the head's output
  float *score, *grad_score;  // [tokens][heads]
  // By head.
  float *asked, *grad_asked;          // [heads][head_size]: the query of "="
  float *direction, *grad_direction;  // [heads][stride]: a token's score is its product with this
  float* value_rows;                  // [width][heads][head_stride]
  float* value_columns;               // [heads][head_stride][stride]
  float* merge_rows;                  // [heads][head_stride][stride]
  float* merge_columns;               // [heads][width][head_stride]

  // By pair of a tile, lanes being pairs, or (`by_pair`) features.
  float* attention;             // [heads][3][pair_tile]
  float *stream, *grad_stream;  // [width][pair_tile]: after the attention
  float *last, *grad_last;      // [width][pair_tile]: after the MLP
  float *active, *slope;        // [mlp_width][pair_tile]: neurons' values and derivatives
  float *stream_by_pair, *grad_stream_by_pair, *last_by_pair;  // [pair_tile][stride]
  float* active_by_pair;                                       // [pair_tile][hidden_stride]
};

struct PairTransformerKernel : PairFunctions<PairTransformerState> {};

}  // namespace elegans
