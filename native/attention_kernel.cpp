// A step of a transformer of causal attention, for one instruction set: this file is compiled once
// for each.
//
// Lanes are sequences. All products, whatever they are summed over (features, positions or
// distances), are then products of vectors lane by lane, done in registers for a few rows and
// columns at a time; softmax, layer norms and loss run over features or positions without a
// remainder. Only the lower triangle of the attention is computed. All sums have a fixed order.
#include "attention_types.hpp"
#include "descent.hpp"
#include "elementary.hpp"
#include "products.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

constexpr int tile_rows = attention_rows;
constexpr int tile_columns =
    chunk == 16 ? 4 : 2;  // columns of a product: 16 of 32 registers, or 8 of 16
constexpr float norm_epsilon = 1e-5f;

// An array [rows][width][lanes], starting at one of its features.
struct Activations {
  float* at;
  Size row;  // from one position to the next
  ELEGANS_INLINE Vectors by_position(Size first = 0) const {
    return {at + first * row, row, lanes};
  }
  ELEGANS_INLINE Vectors by_feature(Size first = 0) const { return {at + first * row, lanes, row}; }
  ELEGANS_INLINE Place place(Size first = 0) const { return {at + first * row, row, lanes}; }
};

ELEGANS_INLINE Activations part(float* array, Size width, Size first = 0) {
  return {array + first * lanes, width * lanes};
}

// out = in times a matrix [inputs][outputs], or plus that.
template <bool added>
void matmul(const AttentionState& state, Activations in, Size inputs, AttentionWeight matrix,
            Size outputs, Activations out) {
  multiply<added>(state.rows, outputs, inputs, in.by_position(), Numbers{matrix.value, 1, outputs},
                  out.place());
}

// in_back = out_back times the transposed matrix, and the gradient of the matrix.
void matmul_backward(const AttentionState& state, Activations in, Activations grad_in, Size inputs,
                     AttentionWeight matrix, Size outputs, Activations grad_out) {
  multiply<true>(inputs, outputs, state.length, in.by_feature(), grad_out.by_feature(),
                 Place{matrix.grad, outputs * lanes, lanes});
  multiply<false>(state.rows, inputs, outputs, grad_out.by_position(),
                  Numbers{matrix.value, outputs, 1}, grad_in.place());
}

void normalise(const AttentionState& state, const AttentionNorm& norm, const float* input) {
  if (!norm.scale.value) return;
  const float share = 1.0f / static_cast<float>(state.width);
  for (Size i = 0; i < state.rows; i++) {
    const Size row = i * state.width * lanes;
    Floats sum{}, squares{};
    for (Size f = 0; f < state.width; f++) sum += load_floats(input + row + f * lanes);
    const Floats mean = sum * share;
    for (Size f = 0; f < state.width; f++) {
      const Floats x = load_floats(input + row + f * lanes) - mean;
      squares += x * x;
    }
    const Floats inverse = 1.0f / root(squares * share + norm_epsilon);
    store_floats(norm.inverse + i * lanes, inverse);
    for (Size f = 0; f < state.width; f++) {
      const Size place = row + f * lanes;
      const Floats x = (load_floats(input + place) - mean) * inverse;
      store_floats(norm.centred + place, x);
      store_floats(norm.normed + place, x * norm.scale.value[f] + norm.shift.value[f]);
    }
  }
}

// Adds to `grad_out` the gradient that passes back through the norm, given that of its outputs.
void normalise_backward(const AttentionState& state, const AttentionNorm& norm, const float* normed,
                        float* grad_out) {
  const Size width = state.width;
  if (!norm.scale.value) {
    for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
      store_floats(grad_out + p, load_floats(grad_out + p) + load_floats(normed + p));
    }
    return;
  }
  const float share = 1.0f / static_cast<float>(width);
  for (Size i = 0; i < state.rows; i++) {
    const Size row = i * width * lanes;
    Floats sum{}, moment{};
    for (Size f = 0; f < width; f++) {
      const Floats grad = load_floats(normed + row + f * lanes);
      const Floats x = load_floats(norm.centred + row + f * lanes);
      float *scale = norm.scale.grad + f * lanes, *shift = norm.shift.grad + f * lanes;
      store_floats(scale, load_floats(scale) + grad * x);
      store_floats(shift, load_floats(shift) + grad);
      sum += grad * norm.scale.value[f];
      moment += grad * norm.scale.value[f] * x;
    }
    const Floats mean = sum * share, along = moment * share;
    const Floats inverse = load_floats(norm.inverse + i * lanes);
    for (Size f = 0; f < width; f++) {
      const Size place = row + f * lanes;
      const Floats grad = load_floats(normed + place) * norm.scale.value[f];
      const Floats x = load_floats(norm.centred + place);
      store_floats(grad_out + place,
                   load_floats(grad_out + place) + inverse * (grad - mean - along * x));
    }
  }
}

// The arrays of one head. Its weights are in rows of `stride` vectors: a query fills those up to
// itself, followed by zeros up to the end of its block; what is beyond and before stays zero.
struct Head {
  Activations query, key, value;
  float* weights;
  Size stride;            // in floats
  const float* distance;  // of the key at distance 0
  Size size, first;
  float scale;
  bool relative;  // whether queries are also compared with the vectors of distances
};

Head head_of(const AttentionState& state, const AttentionLayer& layer, Size number) {
  const Size width = state.width, first = number * layer.head_size;
  return {part(layer.qkv, 3 * width, first),
          part(layer.qkv, 3 * width, width + first),
          part(layer.qkv, 3 * width, 2 * width + first),
          layer.weights + (number * state.rows * state.stride + tile_rows) * lanes,
          state.stride * lanes,
          layer.distance + (tile_rows - 1) * width + first,
          layer.head_size,
          first,
          1.0f / __builtin_sqrtf(static_cast<float>(layer.head_size)),
          layer.relative.value != nullptr};
}

// Calls `function` with each block of queries and keys on or below the diagonal.
template <class Function>
ELEGANS_INLINE void below_diagonal(Size rows, Function function) {
  for (Size i = 0; i < rows; i += tile_rows) {
    for (Size j = 0; j < i + tile_rows; j += tile_columns) function(i, j);
  }
}

// The logits of a head's attention: queries times keys, and times the vectors of distances.
void compare(const AttentionState& state, const Head& head) {
  below_diagonal(state.rows, [&](Size i, Size j) {
    Floats sum[tile_rows][tile_columns] = {};
    add_products(sum, head.query.by_position(i), head.key.by_position(j), head.size);
    const float* distance = head.distance + (i - j - (tile_columns - 1)) * state.width;
    const Vectors query = head.query.by_position(i);
    for (Size f = 0; f < (head.relative ? head.size : 0); f++) {
      Floats x[tile_rows];
#pragma GCC unroll 4
      for (int r = 0; r < tile_rows; r++) x[r] = load_floats(query.at + r * query.step + f * lanes);
#pragma GCC unroll 8
      for (int d = 0; d < tile_rows + tile_columns - 1; d++) {
        const Floats y = spread(distance[d * state.width + f]);
#pragma GCC unroll 4
        for (int r = 0; r < tile_rows; r++) {
          const int c = r - d + tile_columns - 1;
          if (c >= 0 && c < tile_columns) sum[r][c] += x[r] * y;
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; r++) {
#pragma GCC unroll 4
      for (int c = 0; c < tile_columns; c++) {
        store_floats(head.weights + (i + r) * head.stride + (j + c) * lanes,
                     sum[r][c] * head.scale);
      }
    }
  });
}

// The softmax over the keys of each query, excluding later ones.
void attend(const AttentionState& state, const Head& head) {
  for (Size i = 0; i < state.rows; i++) {
    float* weights = head.weights + i * head.stride;
    Floats top = load_floats(weights), total{};
    for (Size j = 1; j <= i; j++) top = larger(top, load_floats(weights + j * lanes));
    for (Size j = 0; j <= i; j++) {
      const Floats e = exp_negative(load_floats(weights + j * lanes) - top);
      store_floats(weights + j * lanes, e);
      total += e;
    }
    const Floats share = 1.0f / total;
    for (Size j = 0; j <= i; j++) {
      store_floats(weights + j * lanes, load_floats(weights + j * lanes) * share);
    }
    for (Size j = i + 1; j % tile_rows != 0; j++) store_floats(weights + j * lanes, Floats{});
  }
}

// gelu(x) = x logistic(2u) and its derivative, where u = sqrt(2 / pi) (x + 0.044715 x^3): 1 + tanh
// u is twice the logistic function of 2u.
constexpr float gelu_factor = 1.5957691216f, gelu_cubic = 0.044715f;
ELEGANS_INLINE Floats gelu_exponent(Floats x) {
  return gelu_factor * x * (1.0f + gelu_cubic * x * x);
}
ELEGANS_INLINE Floats gelu_slope(Floats x) {
  const Floats share = logistic(gelu_exponent(x));
  return share * (1.0f + x * (1.0f - share) * gelu_factor * (1.0f + 3 * gelu_cubic * x * x));
}

// The MLP's inputs plus its outputs, into `output`.
void mlp_forward(const AttentionState& state, const AttentionMLP& mlp, float* output) {
  const Size width = state.width, hidden = state.mlp_width;
  normalise(state, mlp.norm, mlp.input);
  matmul<false>(state, part(mlp.norm.normed, width), width, mlp.hidden, hidden,
                part(mlp.preactivations, hidden));
  for (Size i = 0; i < state.rows; i++) {
    for (Size h = 0; h < hidden; h++) {
      const Size place = (i * hidden + h) * lanes;
      const Floats x = load_floats(mlp.preactivations + place) + mlp.hidden_bias.value[h];
      store_floats(mlp.preactivations + place, x);
      store_floats(mlp.active + place, x * logistic(gelu_exponent(x)));
    }
    for (Size f = 0; f < width; f++) {
      const Size place = (i * width + f) * lanes;
      store_floats(output + place, load_floats(mlp.input + place) + mlp.residual_bias.value[f]);
    }
  }
  matmul<true>(state, part(mlp.active, hidden), hidden, mlp.residual, width, part(output, width));
}

// Adds the sums over positions of a gradient [rows][width][lanes] to that of a bias.
void bias_backward(const AttentionState& state, const float* grad, Size width,
                   AttentionWeight bias) {
  for (Size i = 0; i < state.length; i++) {
    for (Size f = 0; f < width; f++) {
      float* sum = bias.grad + f * lanes;
      store_floats(sum, load_floats(sum) + load_floats(grad + (i * width + f) * lanes));
    }
  }
}

// state.grad_out, the derivatives by the MLP's outputs, become those by its inputs.
void mlp_backward(const AttentionState& state, const AttentionMLP& mlp) {
  const Size width = state.width, hidden = state.mlp_width;
  bias_backward(state, state.grad_out, width, mlp.residual_bias);
  matmul_backward(state, part(mlp.active, hidden), part(state.grad_active, hidden), hidden,
                  mlp.residual, width, part(state.grad_out, width));
  for (Size p = 0; p < state.rows * hidden * lanes; p += lanes) {
    const Floats slope = gelu_slope(load_floats(mlp.preactivations + p));
    store_floats(state.grad_active + p, load_floats(state.grad_active + p) * slope);
  }
  bias_backward(state, state.grad_active, hidden, mlp.hidden_bias);
  matmul_backward(state, part(mlp.norm.normed, width), part(state.grad_normed, width), width,
                  mlp.hidden, hidden, part(state.grad_active, hidden));
  normalise_backward(state, mlp.norm, state.grad_normed, state.grad_out);
}

void layer_forward(const AttentionState& state, const AttentionLayer& layer, float* output) {
  const Size width = state.width;
  const Activations attended = part(layer.attended, width);
  normalise(state, layer.norm, layer.input);
  matmul<false>(state, part(layer.norm.normed, width), width, layer.matrix, 3 * width,
                part(layer.qkv, 3 * width));
  for (Size number = 0; number < layer.heads; number++) {
    const Head head = head_of(state, layer, number);
    compare(state, head);
    attend(state, head);
    const Activations own = part(layer.attended, width, head.first);
    for (Size i = 0; i < state.rows; i += tile_rows) {
      multiply<false>(tile_rows, head.size, i + tile_rows,
                      Vectors{head.weights + i * head.stride, head.stride, lanes},
                      head.value.by_feature(), own.place(i));
    }
  }
  const float* change = layer.out_proj.value ? nullptr : layer.attended;
  for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
    const Floats x = load_floats(layer.input + p);
    store_floats(output + p, change ? x + load_floats(change + p) : x);
  }
  if (layer.out_proj.value) {
    matmul<true>(state, attended, width, layer.out_proj, width, part(output, width));
  }
}

// Replaces the loss's derivatives by the weights with those by the logits of attention.
void attend_backward(const AttentionState& state, const Head& head, Activations attended,
                     Activations grad_attended) {
  Floats mean[tile_rows];
  below_diagonal(state.rows, [&](Size i, Size j) {
    const Vectors grad_out = grad_attended.by_position(i), own = attended.by_position(i);
    if (j == 0) {
#pragma GCC unroll 4
      for (int r = 0; r < tile_rows; r++) {
        mean[r] = Floats{};
        for (Size f = 0; f < head.size; f++) {
          mean[r] += load_floats(grad_out.at + r * grad_out.step + f * lanes) *
                     load_floats(own.at + r * own.step + f * lanes);
        }
      }
    }
    Floats sum[tile_rows][tile_columns] = {};
    add_products(sum, grad_out, head.value.by_position(j), head.size);
#pragma GCC unroll 4
    for (int r = 0; r < tile_rows; r++) {
#pragma GCC unroll 4
      for (int c = 0; c < tile_columns; c++) {
        float* place = head.weights + (i + r) * head.stride + (j + c) * lanes;
        store_floats(place, load_floats(place) * ((sum[r][c] - mean[r]) * head.scale));
      }
    }
  });
}

// For each key, the sum over its queries of their weights times their vectors.
void by_key(const AttentionState& state, const Head& head, Activations queries, Activations keys) {
  for (Size j = 0; j < state.rows; j += tile_rows) {
    multiply<false>(tile_rows, head.size, state.length - j,
                    Vectors{head.weights + j * head.stride + j * lanes, lanes, head.stride},
                    queries.by_feature(j), keys.place(j));
  }
}

void head_backward(const AttentionState& state, const AttentionLayer& layer, const Head& head,
                   float* grad_attended) {
  const Size width = state.width;
  const Activations grad_own = part(grad_attended, width, head.first);
  const Activations query = part(state.grad_qkv, 3 * width, head.first);
  const Activations key = part(state.grad_qkv, 3 * width, width + head.first);
  const Activations value = part(state.grad_qkv, 3 * width, 2 * width + head.first);
  by_key(state, head, grad_own, value);
  attend_backward(state, head, part(layer.attended, width, head.first), grad_own);
  by_key(state, head, head.query, key);
  for (Size i = 0; i < state.rows; i += tile_rows) {
    const float* weights = head.weights + i * head.stride;
    multiply<false>(tile_rows, head.size, i + tile_rows, Vectors{weights, head.stride, lanes},
                    head.key.by_feature(), query.place(i));
    if (!head.relative) continue;
    multiply<true>(tile_rows, head.size, i + tile_rows,
                   Vectors{weights + i * lanes, head.stride + lanes, -lanes},
                   Numbers{head.distance, 1, width}, query.place(i));
  }
  if (!head.relative) return;
  const Activations relative = part(layer.relative.grad, width, head.first);
  for (Size d = 0; d < state.length; d += tile_rows) {
    const Size left = state.length - d;
    multiply<true>(left < tile_rows ? left : tile_rows, head.size, left,
                   Vectors{head.weights + d * head.stride, -lanes, head.stride + lanes},
                   head.query.by_feature(d), relative.place(d));
  }
}

// state.grad_out, the derivatives by the layer's outputs, become those by its inputs.
void layer_backward(const AttentionState& state, const AttentionLayer& layer) {
  const Size width = state.width;
  float* grad_attended = state.grad_out;
  if (layer.out_proj.value) {
    grad_attended = state.grad_attended;
    matmul_backward(state, part(layer.attended, width), part(grad_attended, width), width,
                    layer.out_proj, width, part(state.grad_out, width));
  }
  for (Size number = 0; number < layer.heads; number++) {
    head_backward(state, layer, head_of(state, layer, number), grad_attended);
  }
  matmul_backward(state, part(layer.norm.normed, width), part(state.grad_normed, width), width,
                  layer.matrix, 3 * width, part(state.grad_qkv, 3 * width));
  normalise_backward(state, layer.norm, state.grad_normed, state.grad_out);
}

// Puts sequences [count][length] into the lanes; missing ones are 0.
void arrange(const AttentionState& state, const std::int32_t* sequences, Size count,
             std::int32_t* lanewise) {
  for (Size i = 0; i < state.length; i++) {
    for (Size lane = 0; lane < lanes; lane++) {
      lanewise[i * lanes + lane] = lane < count ? sequences[lane * state.length + i] : 0;
    }
  }
}

ELEGANS_INLINE Ints load_ints(const std::int32_t* x) {
  Ints ints;
  __builtin_memcpy(&ints, x, sizeof ints);
  return ints;
}
ELEGANS_INLINE Ints is(Ints x, Size number) {
  return (Ints)(x == static_cast<std::int32_t>(number));
}

void forward(const AttentionState& state) {
  const Size width = state.width, symbols = state.symbols;
  for (Size i = 0; i < state.rows; i++) {
    const Ints token = load_ints(state.token + i * lanes);
    for (Size s = 0; s < symbols; s++) {
      store_floats(state.chosen + (i * symbols + s) * lanes, where(is(token, s), spread(1.0f)));
    }
  }
  matmul<false>(state, part(state.chosen, symbols), symbols, state.embedding, width,
                part(state.layer[0].input, width));
  if (state.position.value) {
    for (Size p = 0; p < state.length * width; p++) {
      float* place = state.layer[0].input + p * lanes;
      store_floats(place, load_floats(place) + state.position.value[p]);
    }
  }
  for (Size l = 0; l < state.layers; l++) {
    const AttentionLayer& layer = state.layer[l];
    float* output = l + 1 < state.layers ? state.layer[l + 1].input : state.stream;
    layer_forward(state, layer, state.mlp_width ? layer.mlp.input : output);
    if (state.mlp_width) mlp_forward(state, layer.mlp, output);
  }
  normalise(state, state.norm, state.stream);
  matmul<false>(state, part(state.norm.normed, width), width, state.output, symbols,
                part(state.logits, symbols));
}

struct Totals {
  bool finite;
  double loss, wrong;
};

struct Logits {
  Floats own, other;  // of the label, and the largest of the others
};
ELEGANS_INLINE Logits compare_logits(const AttentionState& state, Size i) {
  const Ints label = load_ints(state.label + i * lanes);
  Logits found{Floats{}, spread(-__builtin_inff())};
  for (Size s = 0; s < state.symbols; s++) {
    const Floats x = load_floats(state.logits + (i * state.symbols + s) * lanes);
    found.own = choose(is(label, s), x, found.own);
    found.other = choose(~is(label, s) & (Ints)(x > found.other), x, found.other);
  }
  return found;
}

// Replaces logits by the derivatives of the mean cross-entropy by them, zero where there is no
// sequence or position, and returns the sums of its terms.
Totals cross_entropy(const AttentionState& state, Size count) {
  const float share = 1.0f / (static_cast<float>(state.batch) * static_cast<float>(state.length));
  const Ints real = (Ints)((Ints)lane_numbers() < (Ints)spread(static_cast<std::uint32_t>(count)));
  Floats wrong{};
  Ints infinite{};
  double loss = 0;
  for (Size i = 0; i < state.length; i++) {
    float* logits = state.logits + i * state.symbols * lanes;
    const Ints label = load_ints(state.label + i * lanes);
    const Logits found = compare_logits(state, i);
    const Floats top = larger(found.other, found.own);
    Floats total{};
    for (Size s = 0; s < state.symbols; s++) {
      const Floats x = load_floats(logits + s * lanes);
      infinite |= (Ints)(x - x != 0.0f);
      const Floats e = exp_negative(x - top);
      total += e;
      store_floats(logits + s * lanes, e);
    }
    const Floats scale = share / total;
    for (Size s = 0; s < state.symbols; s++) {
      const Floats own = where(is(label, s), spread(share));
      store_floats(logits + s * lanes, where(real, load_floats(logits + s * lanes) * scale - own));
    }
    loss += static_cast<double>(lane_sum(where(real, log_from_one(total) + (top - found.own))));
    wrong = where(real & ~(Ints)(found.own > found.other), spread(1.0f));
  }
  for (Size p = state.length * state.symbols; p < state.rows * state.symbols; p++) {
    store_floats(state.logits + p * lanes, Floats{});
  }
  return {sign_bits((Words)(real & infinite)) == 0, loss, static_cast<double>(lane_sum(wrong))};
}

void backward(const AttentionState& state) {
  const Size width = state.width, symbols = state.symbols;
  matmul_backward(state, part(state.norm.normed, width), part(state.grad_normed, width), width,
                  state.output, symbols, part(state.logits, symbols));
  for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
    store_floats(state.grad_out + p, Floats{});
  }
  normalise_backward(state, state.norm, state.grad_normed, state.grad_out);
  for (Size l = state.layers - 1; l >= 0; l--) {
    if (state.mlp_width) mlp_backward(state, state.layer[l].mlp);
    layer_backward(state, state.layer[l]);
  }
  if (state.position.value) {
    for (Size p = 0; p < state.length * width * lanes; p += lanes) {
      float* sum = state.position.grad + p;
      store_floats(sum, load_floats(sum) + load_floats(state.grad_out + p));
    }
  }
  multiply<true>(symbols, width, state.length, part(state.chosen, symbols).by_feature(),
                 part(state.grad_out, width).by_feature(),
                 Place{state.embedding.grad, width * lanes, lanes});
}

// Copies the tables of distances to arrays with zeros around them.
void place_distances(const AttentionState& state) {
  for (Size l = 0; l < state.layers; l++) {
    const AttentionLayer& layer = state.layer[l];
    if (!layer.relative.value) continue;
    float* distance = layer.distance + (tile_rows - 1) * state.width;
    for (Size p = 0; p < state.length * state.width; p++) distance[p] = layer.relative.value[p];
  }
}

bool step(AttentionState& state, const std::int32_t* tokens, const std::int32_t* labels,
          float factor) {
  place_distances(state);
  for (Size p = 0; p < state.size; p++) store_floats(state.grad + p * lanes, Floats{});
  double loss = 0, wrong = 0;
  for (Size first = 0; first < state.batch; first += lanes) {
    const Size left = state.batch - first, count = left < lanes ? left : lanes;
    arrange(state, tokens + first * state.length, count, state.token);
    arrange(state, labels + first * state.length, count, state.label);
    forward(state);
    const Totals totals = cross_entropy(state, count);
    if (!totals.finite) {
      state.diverged_at = static_cast<std::int64_t>(state.step);
      return false;
    }
    loss += totals.loss;
    wrong += totals.wrong;
    backward(state);
  }
  descend(state, factor, [&](Size p) {
    Floats grad[lanes];
    for (Size i = 0; i < lanes; i++) grad[i] = load_floats(state.grad + (p + i) * lanes);
    return over_lanes<false, lanes>(grad);
  });
  state.step++;
  state.loss_sum += loss / static_cast<double>(state.batch * state.length);
  state.error_sum += wrong / static_cast<double>(state.batch);
  return true;
}

void outputs(AttentionState& state, const std::int32_t* tokens, Size count) {
  place_distances(state);
  arrange(state, tokens, count, state.token);
  forward(state);
}

void wrong(AttentionState& state, const std::int32_t* tokens, const std::int32_t* labels,
           Size count) {
  outputs(state, tokens, count);
  arrange(state, labels, count, state.label);
  const Logits found = compare_logits(state, state.length - 1);
  store_floats(state.last_wrong, where(~(Ints)(found.own > found.other), spread(1.0f)));
}

}  // namespace

extern const AttentionKernel attention_kernel;
const AttentionKernel attention_kernel = {step, outputs, wrong};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
