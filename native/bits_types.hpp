// The plain data of a transformer that is read at a class token. As in types.hpp, nothing here has
// a function body.
#pragma once

#include "descent_types.hpp"

namespace elegans {

// The parameter arrays, in the order in which they are given; some have no rows.
enum BitsParameter {
  bits_token,     // [2 or 0][width]
  bits_position,  // [n or n + 1][width]
  bits_class,     // [1][width]
  bits_query,     // [heads * head size][width], and so the next three
  bits_key,
  bits_value,
  bits_out_proj,
  bits_query_bias,  // [1][heads * head size], and so the next two
  bits_key_bias,
  bits_value_bias,
  bits_out_proj_bias,  // [1][width]
  bits_scale1,         // [1][width], and so the next five
  bits_shift1,
  bits_scale2,
  bits_shift2,
  bits_scale3,
  bits_shift3,
  bits_hidden,         // [hidden][width]
  bits_hidden_bias,    // [1][hidden]
  bits_residual,       // [width][hidden]
  bits_residual_bias,  // [1][width]
  bits_output,         // [2][width]
  bits_parameter_count
};

// A matrix whose rows are padded with zeros to whole vectors.
struct BitsMatrix {
  Size rows, columns, stride;
  float* value;  // [rows][stride]
  float* grad;   // [rows][stride]: the derivative of the loss by it
};

// A map of normalised inputs: they have mean 0 and variance 1, since scale and shift are multiplied
// into the map.
struct BitsFolded {
  BitsMatrix matrix;
  float* bias;        // [rows, in whole vectors]
  float* bias_grad;   // the same
  float* transposed;  // [columns][rows, in whole vectors]: the matrix transposed, or null
};

// Normalised rows [count][padded_width], and 1 / the deviation of each.
struct BitsNormed {
  float *centred, *inverse;
};

constexpr Size largest_bits_block = 32;  // maximum number of examples computed together

enum class BitsEncoding { trained, fixed, bag };

// Everything that a kernel needs of one network. Vectors run along features, heads or hidden
// neurons, padded with zeros. Examples are computed in blocks.
struct BitsState : DescentState {
  Size n, width, heads, head_size, hidden;
  Size tokens;  // n + 1: the class token is the last
  Size padded_width, padded_heads, padded_features,
      padded_hidden;  // numbers of floats, in whole vectors
  Size block;         // examples at a time
  BitsEncoding encoding;
  float score_scale;
  std::uint32_t drop;  // an entry is dropped if its half word is below this; 0: no dropout
  float kept;          // the factor of entries that stay
  Key dropout_key;
  Loss loss;
  float* gradient;  // [size]
  double clip;      // infinite: none

  BitsMatrix array[bits_parameter_count];
  BitsMatrix difference;  // [1][width]: of the two logits' weights, which determines the output
  BitsMatrix no_bias;     // [1][1]: 0
  BitsFolded query, key, value, hidden_map, output;
  float* out_proj_transposed;  // [width][padded_features]
  float* residual_transposed;  // [hidden][padded_width]
  float* real;                 // [padded_width]: 1 for a feature, 0 for padding
  float* table;  // [2 n + 1][padded_width]: the tokens of 0 and 1 at each place, and of the class
  float* table_grad;  // [2 n + 1][padded_width]

  // Of one example after the other, [block] of each.
  BitsNormed token;      // [tokens][padded_width], [tokens]
  std::uint16_t* drawn;  // [drawn_size]: half words of the embedding's entries
  Size drawn_size;
  float *weights, *dropped;   // [tokens][padded_heads]: after the softmax, and with dropout
  float *asked, *grad_asked;  // [heads][padded_width]: factors of tokens in scores
  float *mixed, *grad_mixed;  // [heads][padded_width]: the tokens mixed by the weights
  // Of one example at a time.
  std::uint16_t* draws;     // half words of the attention's entries
  float* heads_transposed;  // [padded_width][padded_heads]: asked or grad_mixed, transposed
  float* scores;            // [tokens][padded_heads]
  float* grad_place;        // [lanes][padded_width]

  // Of a block of examples.
  float *own, *grad_own;            // [block][padded_width]: the class token, before it is normed
  float *asking, *grad_asking;      // [block][padded_features]: queries
  float *total, *grad_total;        // [block][padded_heads]: sums of weights
  float *found, *grad_found;        // [block][padded_features]
  float *out_proj_kept, *mlp_kept;  // [block][padded_width]: 0, or what the entry is multiplied by
  float* stream;                    // [block][padded_width]
  BitsNormed norm2, norm3;          // [block][padded_width], [block]
  float *preactivations, *gelu,
      *gelu_derivative;                      // [block][padded_hidden]: of the hidden neurons
  float *grad_out, *grad_hidden;             // [block][padded_width], [block][padded_hidden]
  float *output_row, *label_row, *grad_row;  // [block, in whole vectors]

  // Tables for evaluation, [2 n + 1][padded_features].
  float *table_score, *table_weight, *table_value, *table_part;
  float* table_score_by_head;  // [2 n + 1][padded_heads]
  BitsNormed table_normed;     // [2 n + 1][padded_width]
};

// The functions of one instruction set.
struct BitsKernel {
  // Takes a step on the examples index[0 ... batch - 1] of bits [...][n] and labels, unless outputs
  // are not finite.
  bool (*step)(BitsState& state, const std::uint8_t* bits, const float* labels,
               const std::uint32_t* index, float factor);
  // Makes the tables for `outputs`.
  void (*prepare)(BitsState& state);
  // Outputs without dropout on the first `count` (at most `block`) examples.
  void (*outputs)(BitsState& state, const std::uint8_t* bits, Size count, float* output);
};

}  // namespace elegans
