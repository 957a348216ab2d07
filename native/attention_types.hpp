// The plain data of a transformer of causal attention on sequences of tokens. As in types.hpp,
// nothing here has a function body.
#pragma once

#include "descent_types.hpp"

namespace elegans {

constexpr Size attention_rows = 4;  // positions that are summed at once

// One parameter array, and the sums of its gradient over sequences in each lane: [size][lanes].
struct AttentionWeight {
  const float* value;
  float* grad;
};

// A layer norm of activations [rows][width][lanes]; without one (scale.value is null) `normed` is
// its input.
struct AttentionNorm {
  AttentionWeight scale, shift;  // [width]
  float* centred;                // [rows][width][lanes]: of mean 0 and variance 1
  float* inverse;                // [rows][lanes]: 1 / the deviation
  float* normed;                 // [rows][width][lanes]
};

// The MLP after a layer of attention; there is none if hidden.value is null.
struct AttentionMLP {
  AttentionNorm norm;
  AttentionWeight hidden, hidden_bias;      // [width][mlp_width], [mlp_width]
  AttentionWeight residual, residual_bias;  // [mlp_width][width], [width]
  float* input;                             // [rows][width][lanes]
  float *preactivations, *active;           // [rows][mlp_width][lanes]
};

struct AttentionLayer {
  AttentionNorm norm;
  AttentionWeight matrix;    // [width][3 * width]: query, key and value side by side
  AttentionWeight relative;  // [length][width], or null where positions are absolute
  AttentionWeight out_proj;  // [width][width], or null
  AttentionMLP mlp;
  Size heads, head_size;
  float* input;  // [rows][width][lanes]
  float* qkv;    // [rows][3 * width][lanes]: queries, keys and values
  float*
      weights;  // [heads][rows][stride][lanes] up to the diagonal, tile_rows vectors from the start
  float* attended;  // [rows][width][lanes]
  float* distance;  // [attention_rows - 1 + rows][width]: relative, with zeros around it
};

// Everything that a kernel needs of one network. Lanes are sequences, as many at a time as there
// are lanes; `rows` is the length, rounded up to a multiple of attention_rows. Positions and
// sequences beyond the real ones do not contribute to the loss, so that their derivatives are zero,
// and no real position attends to them.
struct AttentionState : DescentState {
  Size symbols, width, length, layers, mlp_width;
  Size rows, stride;  // stride: from one query's weights to the next one's

  float* grad;  // [size][lanes]

  AttentionWeight embedding;  // [symbols][width]
  AttentionWeight position;   // [length][width], or null where positions are relative
  AttentionLayer* layer;      // [layers]
  AttentionNorm norm;
  AttentionWeight output;  // [width][symbols]

  std::int32_t *token, *label;  // [rows][lanes]
  float* chosen;                // [rows][symbols][lanes]: 1 for the token, 0 for others
  float* stream;                // [rows][width][lanes]: activations after the last layer
  float* logits;                // [rows][symbols][lanes], then the loss's derivatives by them
  float* last_wrong;            // [lanes]: 1 where the last position of a sequence is wrong
  // Gradients of the layer that is being propagated back through.
  float *grad_out, *grad_normed, *grad_attended;  // [rows][width][lanes]
  float* grad_qkv;                                // [rows][3 * width][lanes]
  float* grad_active;                             // [rows][mlp_width][lanes]
};

// The functions of one instruction set.
struct AttentionKernel {
  // Takes a step on tokens and labels [batch][length], if all outputs are finite.
  bool (*step)(AttentionState& state, const std::int32_t* tokens, const std::int32_t* labels,
               float factor);
  // Logits of the first `count` (at most `lanes`) sequences, into state.logits.
  void (*outputs)(AttentionState& state, const std::int32_t* tokens, Size count);
  // The same, and whether each sequence's last position is wrong, into state.last_wrong.
  void (*wrong)(AttentionState& state, const std::int32_t* tokens, const std::int32_t* labels,
                Size count);
};

}  // namespace elegans
