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
  bits_merge,
  bits_query_bias,  // [1][heads * head size], and so the next two
  bits_key_bias,
  bits_value_bias,
  bits_merge_bias,  // [1][width]
  bits_scale1,      // [1][width], and so the next five
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

// A matrix whose rows are filled up with zeros to whole vectors.
struct BitsMatrix {
  Size rows, columns, stride;
  float* value;  // [rows][stride]
  float* slope;  // [rows][stride]: the derivative of the loss by it
};

// A map that reads something normed: it reads what is normed to mean 0 and variance 1, since scale
// and shift are multiplied into it.
struct BitsFolded {
  BitsMatrix matrix;
  float* bias;        // [rows, in whole vectors]
  float* bias_slope;  // the same
  float* across;      // [columns][rows, in whole vectors]: the matrix transposed, or null
};

// What a norm leaves of rows [count][wide], and 1 / the deviation of each.
struct BitsNormed {
  float *centred, *inverse;
};

constexpr Size largest_bits_block = 32;  // examples gone through together at the most

enum class BitsEncoding { trained, fixed, bag };

// Everything that a kernel needs of one network. Vectors lie along features, heads or hidden
// neurons, filled up with zeros: wide, over (heads), across (heads' features) and deep (hidden
// neurons) are such sizes. Examples are gone through in blocks.
struct BitsState : DescentState {
  Size n, width, heads, head_size, hidden;
  Size tokens;                    // n + 1: the class token is the last
  Size wide, over, across, deep;  // numbers of floats, in whole vectors
  Size block;                     // examples at a time
  BitsEncoding encoding;
  float score_scale;
  std::uint32_t drop;  // an entry is dropped where a half word is below this; 0: no dropout
  float kept;          // what entries that stay are multiplied by
  Key dropout_key;
  Loss loss;
  float* gradient;  // [size]
  double clip;      // infinite: none

  BitsMatrix array[bits_parameter_count];
  BitsMatrix difference;  // [1][width]: of the two logits' weights, which is all that counts
  BitsMatrix no_bias;     // [1][1]: 0
  BitsFolded query, key, value, hidden_map, output;
  float* merge_across;     // [width][across]
  float* residual_across;  // [hidden][wide]
  float* real;             // [wide]: 1 for a feature, 0 where rows are filled up
  float* table;            // [2 n + 1][wide]: the tokens of 0 and 1 at each place, and of the class
  float* table_slope;      // [2 n + 1][wide]

  // Of one example after the other, [block] of each.
  BitsNormed token;      // [tokens][wide], [tokens]
  std::uint16_t* drawn;  // [drawn_size]: half words of the embedding's entries
  Size drawn_size;
  float *weights, *dropped;   // [tokens][over]: after the softmax, and with dropout
  float *asked, *asked_back;  // [heads][wide]: what scores are products with
  float *mixed, *mixed_back;  // [heads][wide]: the tokens mixed by the weights
  // Of one example at a time.
  std::uint16_t* draws;  // half words of the attention's entries
  float* heads_across;   // [wide][over]: asked or mixed_back, transposed
  float* scores;         // [tokens][over]
  float* place_back;     // [lanes][wide]

  // Of a block of examples.
  float *own, *own_back;                 // [block][wide]: the class token, before it is normed
  float *asking, *asking_back;           // [block][across]: queries
  float *total, *total_back;             // [block][over]: sums of weights
  float *found, *found_back;             // [block][across]
  float *merged_kept, *perceptron_kept;  // [block][wide]: 0, or what the entry is multiplied by
  float *stream, *stream_back;           // [block][wide]
  BitsNormed norm2, norm3;               // [block][wide], [block]
  float *sums, *active, *bent;  // [block][deep]: of the hidden neurons, gelus and their slopes
  float *back, *deep_back;      // [block][wide], [block][deep]
  float *output_row, *label_row, *slope_row;  // [block, in whole vectors]

  // Tables for evaluation, [2 n + 1][across].
  float *table_score, *table_weight, *table_value, *table_part;
  float* table_score_by_head;  // [2 n + 1][over]
  BitsNormed table_normed;     // [2 n + 1][wide]
};

// What one instruction set offers.
struct BitsKernel {
  // Takes a step on the examples index[0 ... batch - 1] of bits [...][n] and labels, unless outputs
  // are not finite.
  bool (*step)(BitsState& state, const std::uint8_t* bits, const float* labels,
               const std::uint32_t* index, float factor);
  // Makes the tables with which `outputs` works.
  void (*prepare)(BitsState& state);
  // Outputs without dropout on the first `count` (at most `block`) examples.
  void (*outputs)(BitsState& state, const std::uint8_t* bits, Size count, float* output);
};

}  // namespace elegans
