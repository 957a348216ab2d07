// Transformers on pairs: what depends on one token only is computed once for all pairs; a step is
// then the products of the MLP and the output, done tile by tile of pairs.
//
// In these products pairs are in the lanes, and numbers of the matrices are operands in memory; for
// the gradients of the matrices, features are in the lanes. All sums have a fixed order. This file
// is compiled once for each instruction set.
#include "pair_transformer_types.hpp"

#include "descent.hpp"
#include "pairs.hpp"
#include "patches.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

using State = PairTransformerState;

// Copies the rows of a matrix whose entry (r, k) is at `from + r * row + k * next` into parts.
void pack(const float* from, Size rows, Size count, Size row, Size next, float* to) {
  in_rows(rows, [=](auto part, Size first) {
    const float* source = from + first * row;
    float* place = to + first * count;
    for (Size k = 0; k < count; k++) {
#pragma GCC unroll 12
      for (int r = 0; r < part.value; r++) place[k * part.value + r] = source[r * row + k * next];
    }
  });
}

void pack(const State& state, const PairMatrix& w) {
  const float* from = state.parameter + w.first;
  pack(from, w.rows, w.columns, w.columns, 1, w.forward);
  pack(from, w.columns, w.rows, 1, w.columns, w.backward);
}

// Calls `finish` with each row r, vector place p and the sum over k of W(r, k) x[k][p], for the
// first `count` pairs, rounded up; W has been packed.
template <class Finish>
ELEGANS_INLINE void by_pairs(const float* packed, Size rows, Size terms, const float* x, Size count,
                             Finish finish) {
  in_rows(rows, [=](auto part, Size first) {
    for (Size p = 0; p < count; p += column) {
      Patch<part.value> sums;
      sums.clear();
      sums.template add_products<1, part.value>(packed + first * terms, x + p, pair_tile, terms);
#pragma GCC unroll 12
      for (int r = 0; r < part.value; r++) {
        finish(first + r, p, sums.at[r][0]);
        finish(first + r, p + lanes, sums.at[r][1]);
      }
    }
  });
}

// Adds the products of derivatives by outputs [rows][pair_tile] and inputs by pair to the gradient.
void add_gradient(const PairMatrix& w, const float* by_output, const float* input_by_pair,
                  Size count) {
  for (Size i = 0; i < w.stride; i += column) {
    in_rows(w.rows, [=, &w](auto part, Size first) {
      Patch<part.value> sums;
      float* place = w.gradient + first * w.stride + i;
      sums.load(place, w.stride);
      sums.template add_products<pair_tile, 1>(by_output + first * pair_tile, input_by_pair + i,
                                               w.stride, count);
      sums.store(place, w.stride);
    });
  }
}

// Rows of pairs from columns of them, and the other way round: whole vectors.
void turn(const float* from, Size from_stride, float* to, Size to_stride, Size rows, Size columns) {
  for (Size r = 0; r < rows; r += lanes) {
    for (Size c = 0; c < columns; c += lanes) {
      Floats x[lanes];
#pragma GCC unroll 16
      for (Size l = 0; l < lanes; l++) x[l] = load_floats(from + (r + l) * from_stride + c);
      transpose(x);
#pragma GCC unroll 16
      for (Size l = 0; l < lanes; l++) store_floats(to + (c + l) * to_stride + r, x[l]);
    }
  }
}

ELEGANS_INLINE Size whole_columns(Size count) { return (count + column - 1) / column * column; }

void clear(float* x, Size count) { __builtin_memset(x, 0, static_cast<std::size_t>(count) * 4); }

// C = A B, or C += A B: A has numbers [rows][terms], B [terms][columns] and C are rows of vectors.
template <bool added>
void multiply_rows(Size rows, Size columns, Size terms, Numbers a, const float* b, Size b_stride,
                   float* c, Size c_stride) {
  multiply<added>(columns / lanes, rows, terms, Vectors{b, lanes, b_stride}, a,
                  Place{c, lanes, c_stride});
}

// Sets all that depends on parameters only.
void prepare(State& state) {
  const float* parameter = state.parameter;
  const Size width = state.width, heads = state.heads, size = state.head_size;
  const Size order = state.order, stride = state.stride, head_stride = state.head_stride;
  const float* position = parameter + state.position;
  for (Size t = 0; t < state.tokens; t++) {
    const bool equals = t == 2 * order;
    const float* own = parameter + (equals ? state.equals : state.number + t % order * width);
    const float* place = position + (equals ? 2 : t / order) * width;
    for (Size d = 0; d < width; d++) state.token[t * stride + d] = own[d] + place[d];
  }
  const float* last = state.token + 2 * order * stride;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(size));
  for (Size h = 0; h < heads; h++) {
    const Size matrix = h * width * size;
    const float* query = parameter + state.query + matrix;
    const float* key = parameter + state.key + matrix;
    const float* value = parameter + state.value + matrix;
    const float* merge = parameter + state.merge + matrix;
    float* asked = state.asked + h * size;
    clear(asked, size);
    for (Size d = 0; d < width; d++) {
      for (Size s = 0; s < size; s++) asked[s] += last[d] * query[d * size + s];
    }
    for (Size d = 0; d < width; d++) {
      float sum = 0;
      for (Size s = 0; s < size; s++) sum += key[d * size + s] * asked[s];
      state.direction[h * stride + d] = sum * scale;
    }
    float* columns = state.value_columns + h * head_stride * stride;
    float* rows = state.merge_rows + h * head_stride * stride;
    for (Size s = 0; s < size; s++) {
      for (Size d = 0; d < width; d++) {
        const float v = value[d * size + s];
        const float m = merge[s * width + d];
        columns[s * stride + d] = v;
        rows[s * stride + d] = m;
        state.value_rows[(d * heads + h) * head_stride + s] = v;
        state.merge_columns[(h * width + d) * head_stride + s] = m;
      }
    }
  }
  const Size across = heads * head_stride;
  multiply_rows<false>(state.tokens, across, width, Numbers{state.token, stride, 1},
                       state.value_rows, across, state.mixed, across);
  for (Size h = 0; h < heads; h++) {
    multiply_rows<false>(state.tokens, stride, size,
                         Numbers{state.mixed + h * head_stride, across, 1},
                         state.merge_rows + h * head_stride * stride, stride,
                         state.added + h * stride, heads * stride);
  }
  for (Size t = 0; t < state.tokens; t++) {
    for (Size h = 0; h < heads; h++) {
      Floats sum{};
      for (Size d = 0; d < stride; d += lanes) {
        sum += load_floats(state.token + t * stride + d) *
               load_floats(state.direction + h * stride + d);
      }
      state.score[t * heads + h] = lane_sum(sum);
    }
  }
  pack(state, state.hidden);
  pack(state, state.residual);
  pack(state, state.unembed);
  state.fresh_parameters = false;
}

// The three rows of a table by token and head that belong to a pair and the head.
template <class Row>
struct Three {
  Row *first, *second, *last;
};
template <class Row>
ELEGANS_INLINE Three<Row> rows_of(const State& state, Row* table, const Pairs& pairs, Size p,
                                  Size h) {
  const Size place = h * state.stride;
  return {table + pairs.left[p] + place, table + pairs.right[p] + place,
          table + 2 * state.order * state.heads * state.stride + place};
}

// Which token a pair's a and b are, from the places of their rows.
ELEGANS_INLINE Size left_token(const State& state, const Pairs& pairs, Size p) {
  return pairs.number[p] / static_cast<std::uint32_t>(state.order);
}
ELEGANS_INLINE Size right_token(const State& state, const Pairs& pairs, Size p) {
  return state.order + pairs.number[p] % static_cast<std::uint32_t>(state.order);
}

// How much each head attends to a, to b and to "=".
void attend(const State& state, const Pairs& pairs, Size count) {
  for (Size h = 0; h < state.heads; h++) {
    float* share = state.attention + 3 * h * pair_tile;
    for (Size p = 0; p < count; p++) {
      share[p] = state.score[left_token(state, pairs, p) * state.heads + h];
      share[pair_tile + p] = state.score[right_token(state, pairs, p) * state.heads + h];
    }
    const Floats third = spread(state.score[2 * state.order * state.heads + h]);
    for (Size p = 0; p < count; p += lanes) {
      Floats x = load_floats(share + p);
      Floats y = load_floats(share + pair_tile + p);
      const Floats top = larger(larger(x, y), third);
      x = exp_negative(x - top);
      y = exp_negative(y - top);
      const Floats z = exp_negative(third - top);
      const Floats total = 1.0f / (x + y + z);
      store_floats(share + p, x * total);
      store_floats(share + pair_tile + p, y * total);
      store_floats(share + 2 * pair_tile + p, z * total);
    }
  }
}

// The outputs on a tile of pairs.
void forward(State& state, const Pairs& pairs, Size count) {
  const Size used = whole_columns(count);
  const Size stride = state.stride;
  attend(state, pairs, used);
  const float* last = state.token + 2 * state.order * stride;
  for (Size p = 0; p < used; p++) {
    float* stream = state.stream_by_pair + p * stride;
    for (Size d = 0; d < stride; d += column) {
      Floats sum[2] = {load_floats(last + d), load_floats(last + d + lanes)};
      for (Size h = 0; h < state.heads; h++) {
        const float* share = state.attention + 3 * h * pair_tile + p;
        const Three<const float> rows =
            rows_of(state, static_cast<const float*>(state.added), pairs, p, h);
#pragma GCC unroll 2
        for (Size half = 0; half < 2; half++) {
          const Size at = d + half * lanes;
          sum[half] += share[0] * load_floats(rows.first + at);
          sum[half] += share[pair_tile] * load_floats(rows.second + at);
          sum[half] += share[2 * pair_tile] * load_floats(rows.last + at);
        }
      }
      store_floats(stream + d, sum[0]);
      store_floats(stream + d + lanes, sum[1]);
    }
  }
  turn(state.stream_by_pair, stride, state.stream, pair_tile, used, stride);
  const float* bias = state.parameter + state.hidden_bias;
  with_neurons(state.activation, state.degree, [&, used, bias](auto neuron) {
    by_pairs(state.hidden.forward, state.mlp_width, state.width, state.stream, used,
             [&](Size j, Size p, Floats sum) {
               const Both both = neuron.both(sum + bias[j]);
               store_floats(state.active + j * pair_tile + p, both.value);
               store_floats(state.slope + j * pair_tile + p, both.derivative);
             });
  });
  const float* shift = state.parameter + state.residual_bias;
  by_pairs(state.residual.forward, state.width, state.mlp_width, state.active, used,
           [&](Size d, Size p, Floats sum) {
             const Size place = d * pair_tile + p;
             store_floats(state.last + place, load_floats(state.stream + place) + (sum + shift[d]));
           });
  by_pairs(
      state.unembed.forward, state.order, state.width, state.last, used,
      [&](Size c, Size p, Floats sum) { store_floats(state.output + c * pair_tile + p, sum); });
}

// Sums of derivatives over pairs.
void add_sums(const float* by_output, Size rows, Size used, float* grad) {
  for (Size r = 0; r < rows; r++) {
    Floats sum{};
    for (Size p = 0; p < used; p += lanes) sum += load_floats(by_output + r * pair_tile + p);
    grad[r] += lane_sum(sum);
  }
}

// The gradients by what the tokens add, by their scores and by the last token.
void attention_gradients(State& state, const Pairs& pairs, Size count) {
  const Size stride = state.stride, heads = state.heads, last = 2 * state.order;
  float* residual = state.grad_token + last * stride;
  for (Size p = 0; p < count; p++) {
    const float* grad = state.grad_stream_by_pair + p * stride;
    for (Size d = 0; d < stride; d += lanes)
      store_floats(residual + d, load_floats(residual + d) + load_floats(grad + d));
    for (Size h = 0; h < heads; h++) {
      const float* share = state.attention + 3 * h * pair_tile + p;
      const float shares[3] = {share[0], share[pair_tile], share[2 * pair_tile]};
      const Three<const float> rows =
          rows_of(state, static_cast<const float*>(state.added), pairs, p, h);
      const Three<float> grads = rows_of(state, state.grad_added, pairs, p, h);
      Floats dot[3] = {};
      for (Size d = 0; d < stride; d += lanes) {
        const Floats g = load_floats(grad + d);
        dot[0] += g * load_floats(rows.first + d);
        dot[1] += g * load_floats(rows.second + d);
        dot[2] += g * load_floats(rows.last + d);
        store_floats(grads.first + d, load_floats(grads.first + d) + shares[0] * g);
        store_floats(grads.second + d, load_floats(grads.second + d) + shares[1] * g);
        store_floats(grads.last + d, load_floats(grads.last + d) + shares[2] * g);
      }
      const float by[3] = {lane_sum(dot[0]), lane_sum(dot[1]), lane_sum(dot[2])};
      const float mean = shares[0] * by[0] + shares[1] * by[1] + shares[2] * by[2];
      const Size token[3] = {left_token(state, pairs, p), right_token(state, pairs, p), last};
      for (int i = 0; i < 3; i++)
        state.grad_score[token[i] * heads + h] += shares[i] * (by[i] - mean);
    }
  }
}

// Adds a tile's part to all gradients; its outputs have been replaced by the loss's derivatives.
void backward(State& state, const Pairs& pairs, Size count) {
  const Size used = whole_columns(count), stride = state.stride;
  if (used - count >= lanes) {  // the loss has not set the last vectors
    for (Size c = 0; c < state.order; c++)
      store_floats(state.output + c * pair_tile + used - lanes, Floats{});
  }
  turn(state.last, pair_tile, state.last_by_pair, stride, stride, used);
  add_gradient(state.unembed, state.output, state.last_by_pair, count);
  by_pairs(
      state.unembed.backward, state.width, state.order, state.output, used,
      [&](Size d, Size p, Floats sum) { store_floats(state.grad_last + d * pair_tile + p, sum); });
  turn(state.active, pair_tile, state.active_by_pair, state.hidden_stride, state.hidden_stride,
       used);
  add_gradient(state.residual, state.grad_last, state.active_by_pair, count);
  add_sums(state.grad_last, state.width, used, state.grad + state.residual_bias);
  by_pairs(state.residual.backward, state.mlp_width, state.width, state.grad_last, used,
           [&](Size j, Size p, Floats sum) {
             float* place = state.slope + j * pair_tile + p;
             store_floats(place, load_floats(place) * sum);
           });
  add_gradient(state.hidden, state.slope, state.stream_by_pair, count);
  add_sums(state.slope, state.mlp_width, used, state.grad + state.hidden_bias);
  by_pairs(state.hidden.backward, state.width, state.mlp_width, state.slope, used,
           [&](Size d, Size p, Floats sum) {
             const Size place = d * pair_tile + p;
             store_floats(state.grad_stream + place, load_floats(state.grad_last + place) + sum);
           });
  turn(state.grad_stream, pair_tile, state.grad_stream_by_pair, stride, stride, used);
  attention_gradients(state, pairs, count);
}

void clear_gradients(State& state) {
  clear(state.grad, state.size);
  for (const PairMatrix* w : {&state.hidden, &state.residual, &state.unembed})
    clear(w->gradient, w->rows * w->stride);
  clear(state.grad_token, state.tokens * state.stride);
  clear(state.grad_added, state.tokens * state.heads * state.stride);
  clear(state.grad_score, state.tokens * state.heads);
}

// The gradients of what `prepare` computes, and of matrices in their places in the row.
void gradients_of_parameters(State& state) {
  const float* parameter = state.parameter;
  const Size width = state.width, heads = state.heads, size = state.head_size;
  const Size order = state.order, stride = state.stride, head_stride = state.head_stride;
  const Size tokens = state.tokens, across = heads * head_stride;
  for (const PairMatrix* w : {&state.hidden, &state.residual, &state.unembed}) {
    for (Size r = 0; r < w->rows; r++) {
      __builtin_memcpy(state.grad + w->first + r * w->columns, w->gradient + r * w->stride,
                       static_cast<std::size_t>(w->columns) * sizeof(float));
    }
  }
  // Values and outputs of heads. The packed matrices are needed no more: gradients take their room.
  for (Size h = 0; h < heads; h++) {
    const float* added = state.grad_added + h * stride;
    multiply_rows<false>(tokens, head_stride, width, Numbers{added, heads * stride, 1},
                         state.merge_columns + h * width * head_stride, head_stride,
                         state.grad_mixed + h * head_stride, across);
    float* merge = state.merge_rows + h * head_stride * stride;
    multiply_rows<false>(size, stride, tokens, Numbers{state.mixed + h * head_stride, 1, across},
                         added, heads * stride, merge, stride);
    for (Size s = 0; s < size; s++) {
      __builtin_memcpy(state.grad + state.merge + (h * size + s) * width, merge + s * stride,
                       static_cast<std::size_t>(width) * sizeof(float));
    }
  }
  multiply_rows<true>(tokens, stride, across, Numbers{state.grad_mixed, across, 1},
                      state.value_columns, stride, state.grad_token, stride);
  multiply_rows<false>(width, across, tokens, Numbers{state.token, 1, stride}, state.grad_mixed,
                       across, state.value_rows, across);
  for (Size h = 0; h < heads; h++) {
    for (Size d = 0; d < width; d++) {
      __builtin_memcpy(state.grad + state.value + (h * width + d) * size,
                       state.value_rows + (d * heads + h) * head_stride,
                       static_cast<std::size_t>(size) * sizeof(float));
    }
  }
  // Scores.
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(size));
  const float* last = state.token + 2 * order * stride;
  float* grad_last = state.grad_token + 2 * order * stride;
  multiply_rows<false>(heads, stride, tokens, Numbers{state.grad_score, 1, heads}, state.token,
                       stride, state.grad_direction, stride);
  multiply_rows<true>(tokens, stride, heads, Numbers{state.grad_score, heads, 1}, state.direction,
                      stride, state.grad_token, stride);
  for (Size h = 0; h < heads; h++) {
    const Size matrix = h * width * size;
    const float* asked = state.asked + h * size;
    float* grad_asked = state.grad_asked + h * size;
    clear(grad_asked, size);
    for (Size d = 0; d < width; d++) {
      const float grad = state.grad_direction[h * stride + d] * scale;
      const float* key = parameter + state.key + matrix + d * size;
      float* grad_key = state.grad + state.key + matrix + d * size;
      for (Size s = 0; s < size; s++) {
        grad_key[s] = grad * asked[s];
        grad_asked[s] += grad * key[s];
      }
    }
    for (Size d = 0; d < width; d++) {
      const float* query = parameter + state.query + matrix + d * size;
      float* grad_query = state.grad + state.query + matrix + d * size;
      float sum = 0;
      for (Size s = 0; s < size; s++) {
        grad_query[s] = last[d] * grad_asked[s];
        sum += query[s] * grad_asked[s];
      }
      grad_last[d] += sum;
    }
  }
  // Embeddings and positions.
  for (Size t = 0; t < tokens; t++) {
    const bool equals = t == 2 * order;
    const float* grad = state.grad_token + t * stride;
    float* own = state.grad + (equals ? state.equals : state.number + t % order * width);
    float* place = state.grad + state.position + (equals ? 2 : t / order) * width;
    for (Size d = 0; d < width; d++) {
      own[d] += grad[d];
      place[d] += grad[d];
    }
  }
}

Size row_of_token(const State& state) { return state.heads * state.stride; }

// One step, unless the outputs are not finite.
bool step(State& state, float factor) {
  if (state.fresh_parameters) prepare(state);
  clear_gradients(state);
  const bool finite = each_tile(
      state, row_of_token(state),
      [&](const Pairs& pairs, Size count) { forward(state, pairs, count); },
      [&](const Pairs& pairs, Size count) { backward(state, pairs, count); });
  if (!finite) return false;
  gradients_of_parameters(state);
  descend(state, factor, [&](Size p) { return load_floats(state.grad + p); });
  state.fresh_parameters = true;
  return true;
}

Size advance(State& state, const float* factors, Size steps) {
  return take_steps(state, factors, steps, step);
}

void outputs(State& state, Size count) {
  if (state.fresh_parameters) prepare(state);
  find_rows(state, state.test, count, row_of_token(state));
  forward(state, state.test, count);
}

}  // namespace

extern const PairTransformerKernel pair_transformer_kernel;
const PairTransformerKernel pair_transformer_kernel = {{advance, outputs}};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
