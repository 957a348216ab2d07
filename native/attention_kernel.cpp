// A step of an attention-only transformer, for one instruction set: this file is compiled once for
// each.
//
// Sequences are in the lanes. All that is multiplied, whatever is summed over (features, positions
// or distances), is then one product of vectors lane by lane, done in registers for a few rows and
// columns at a time; softmax, layer norms and loss go down the features or positions without a
// remainder. Only what attends to something, the lower triangle, is computed. All sums are in a
// fixed order.
#include "attention_types.hpp"
#include "descent.hpp"
#include "elementary.hpp"
#include "products.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

constexpr int tall = attention_rows;
constexpr int wide = chunk == 16 ? 4 : 2;  // columns of a product: 16 of 32 registers, or 8 of 16
constexpr float norm_epsilon = 1e-5f;

// An array [rows][width][lanes], from one of its features on.
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
void through(const AttentionState& state, Activations in, Size inputs, AttentionWeight matrix,
             Size outputs, Activations out) {
  multiply<added>(state.rows, outputs, inputs, in.by_position(), Numbers{matrix.value, 1, outputs},
                  out.place());
}

// in_back = out_back times the transposed matrix, and the gradient of the matrix.
void back_through(const AttentionState& state, Activations in, Activations in_back, Size inputs,
                  AttentionWeight matrix, Size outputs, Activations out_back) {
  multiply<true>(inputs, outputs, state.length, in.by_feature(), out_back.by_feature(),
                 Place{matrix.slope, outputs * lanes, lanes});
  multiply<false>(state.rows, inputs, outputs, out_back.by_position(),
                  Numbers{matrix.value, outputs, 1}, in_back.place());
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

// Adds to `back` what the derivatives by normed activations pass back; without a norm, these.
void normalise_back(const AttentionState& state, const AttentionNorm& norm, const float* normed,
                    float* back) {
  const Size width = state.width;
  if (!norm.scale.value) {
    for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
      store_floats(back + p, load_floats(back + p) + load_floats(normed + p));
    }
    return;
  }
  const float share = 1.0f / static_cast<float>(width);
  for (Size i = 0; i < state.rows; i++) {
    const Size row = i * width * lanes;
    Floats sum{}, moment{};
    for (Size f = 0; f < width; f++) {
      const Floats slope = load_floats(normed + row + f * lanes);
      const Floats x = load_floats(norm.centred + row + f * lanes);
      float *scale = norm.scale.slope + f * lanes, *shift = norm.shift.slope + f * lanes;
      store_floats(scale, load_floats(scale) + slope * x);
      store_floats(shift, load_floats(shift) + slope);
      sum += slope * norm.scale.value[f];
      moment += slope * norm.scale.value[f] * x;
    }
    const Floats mean = sum * share, along = moment * share;
    const Floats inverse = load_floats(norm.inverse + i * lanes);
    for (Size f = 0; f < width; f++) {
      const Size place = row + f * lanes;
      const Floats slope = load_floats(normed + place) * norm.scale.value[f];
      const Floats x = load_floats(norm.centred + place);
      store_floats(back + place, load_floats(back + place) + inverse * (slope - mean - along * x));
    }
  }
}

// What one head reads and writes. Its weights lie in rows of `stride` vectors, of which a query
// fills those up to itself and zeros follow up to the end of its block; what is beyond and before
// stays zero.
struct Head {
  Activations query, key, value;
  float* weights;
  Size stride;            // in floats
  const float* distance;  // of the key at distance 0
  Size size, first;
  float scale;
};

Head head_of(const AttentionState& state, const AttentionLayer& layer, Size number) {
  const Size width = state.width, first = number * layer.head_size;
  return {part(layer.sums, 3 * width, first),
          part(layer.sums, 3 * width, width + first),
          part(layer.sums, 3 * width, 2 * width + first),
          layer.weights + (number * state.rows * state.stride + tall) * lanes,
          state.stride * lanes,
          layer.distance + (tall - 1) * width + first,
          layer.head_size,
          first,
          1.0f / __builtin_sqrtf(static_cast<float>(layer.head_size))};
}

// Calls `function` with each block of queries and keys on or below the diagonal.
template <class Function>
ELEGANS_INLINE void below_diagonal(Size rows, Function function) {
  for (Size i = 0; i < rows; i += tall) {
    for (Size j = 0; j < i + tall; j += wide) function(i, j);
  }
}

// The logits of a head's attention: queries times keys, and times what stands for their distance.
void compare(const AttentionState& state, const Head& head) {
  below_diagonal(state.rows, [&](Size i, Size j) {
    Floats sum[tall][wide] = {};
    add_products(sum, head.query.by_position(i), head.key.by_position(j), head.size);
    const float* distance = head.distance + (i - j - (wide - 1)) * state.width;
    const Vectors query = head.query.by_position(i);
    for (Size f = 0; f < head.size; f++) {
      Floats x[tall];
#pragma GCC unroll 4
      for (int r = 0; r < tall; r++) x[r] = load_floats(query.at + r * query.step + f * lanes);
#pragma GCC unroll 8
      for (int d = 0; d < tall + wide - 1; d++) {
        const Floats y = spread(distance[d * state.width + f]);
#pragma GCC unroll 4
        for (int r = 0; r < tall; r++) {
          const int c = r - d + wide - 1;
          if (c >= 0 && c < wide) sum[r][c] += x[r] * y;
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < tall; r++) {
#pragma GCC unroll 4
      for (int c = 0; c < wide; c++) {
        store_floats(head.weights + (i + r) * head.stride + (j + c) * lanes,
                     sum[r][c] * head.scale);
      }
    }
  });
}

// The softmax over the keys of each query, those after it left out.
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
    for (Size j = i + 1; j % tall != 0; j++) store_floats(weights + j * lanes, Floats{});
  }
}

void layer_forward(const AttentionState& state, const AttentionLayer& layer, float* output) {
  const Size width = state.width;
  const Activations attended = part(layer.attended, width);
  normalise(state, layer.norm, layer.input);
  through<false>(state, part(layer.norm.normed, width), width, layer.matrix, 3 * width,
                 part(layer.sums, 3 * width));
  for (Size number = 0; number < layer.heads; number++) {
    const Head head = head_of(state, layer, number);
    compare(state, head);
    attend(state, head);
    const Activations own = part(layer.attended, width, head.first);
    for (Size i = 0; i < state.rows; i += tall) {
      multiply<false>(tall, head.size, i + tall,
                      Vectors{head.weights + i * head.stride, head.stride, lanes},
                      head.value.by_feature(), own.place(i));
    }
  }
  const float* change = layer.merge.value ? nullptr : layer.attended;
  for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
    const Floats x = load_floats(layer.input + p);
    store_floats(output + p, change ? x + load_floats(change + p) : x);
  }
  if (layer.merge.value) {
    through<true>(state, attended, width, layer.merge, width, part(output, width));
  }
}

// The loss's derivatives by the weights, in their place, become those by the logits of attention.
void attend_back(const AttentionState& state, const Head& head, Activations attended,
                 Activations attended_back) {
  Floats mean[tall];
  below_diagonal(state.rows, [&](Size i, Size j) {
    const Vectors back = attended_back.by_position(i), own = attended.by_position(i);
    if (j == 0) {
#pragma GCC unroll 4
      for (int r = 0; r < tall; r++) {
        mean[r] = Floats{};
        for (Size f = 0; f < head.size; f++) {
          mean[r] += load_floats(back.at + r * back.step + f * lanes) *
                     load_floats(own.at + r * own.step + f * lanes);
        }
      }
    }
    Floats sum[tall][wide] = {};
    add_products(sum, back, head.value.by_position(j), head.size);
#pragma GCC unroll 4
    for (int r = 0; r < tall; r++) {
#pragma GCC unroll 4
      for (int c = 0; c < wide; c++) {
        float* place = head.weights + (i + r) * head.stride + (j + c) * lanes;
        store_floats(place, load_floats(place) * ((sum[r][c] - mean[r]) * head.scale));
      }
    }
  });
}

// For each key, what its queries' weights times what these queries have come to.
void by_key(const AttentionState& state, const Head& head, Activations queries, Activations keys) {
  for (Size j = 0; j < state.rows; j += tall) {
    multiply<false>(tall, head.size, state.length - j,
                    Vectors{head.weights + j * head.stride + j * lanes, lanes, head.stride},
                    queries.by_feature(j), keys.place(j));
  }
}

void head_back(const AttentionState& state, const AttentionLayer& layer, const Head& head,
               float* attended_back) {
  const Size width = state.width;
  const Activations own_back = part(attended_back, width, head.first);
  const Activations query = part(state.sums_back, 3 * width, head.first);
  const Activations key = part(state.sums_back, 3 * width, width + head.first);
  const Activations value = part(state.sums_back, 3 * width, 2 * width + head.first);
  by_key(state, head, own_back, value);
  attend_back(state, head, part(layer.attended, width, head.first), own_back);
  by_key(state, head, head.query, key);
  for (Size i = 0; i < state.rows; i += tall) {
    const float* weights = head.weights + i * head.stride;
    multiply<false>(tall, head.size, i + tall, Vectors{weights, head.stride, lanes},
                    head.key.by_feature(), query.place(i));
    multiply<true>(tall, head.size, i + tall,
                   Vectors{weights + i * lanes, head.stride + lanes, -lanes},
                   Numbers{head.distance, 1, width}, query.place(i));
  }
  const Activations relative = part(layer.relative.slope, width, head.first);
  for (Size d = 0; d < state.length; d += tall) {
    const Size left = state.length - d;
    multiply<true>(left < tall ? left : tall, head.size, left,
                   Vectors{head.weights + d * head.stride, -lanes, head.stride + lanes},
                   head.query.by_feature(d), relative.place(d));
  }
}

// state.back, the derivatives by what the layer puts out, become those by what it takes in.
void layer_back(const AttentionState& state, const AttentionLayer& layer) {
  const Size width = state.width;
  float* attended_back = state.back;
  if (layer.merge.value) {
    attended_back = state.attended_back;
    back_through(state, part(layer.attended, width), part(attended_back, width), width, layer.merge,
                 width, part(state.back, width));
  }
  for (Size number = 0; number < layer.heads; number++) {
    head_back(state, layer, head_of(state, layer, number), attended_back);
  }
  back_through(state, part(layer.norm.normed, width), part(state.normed_back, width), width,
               layer.matrix, 3 * width, part(state.sums_back, 3 * width));
  normalise_back(state, layer.norm, state.normed_back, state.back);
}

// Puts sequences [count][length] into the lanes; what there is none of is 0.
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
  through<false>(state, part(state.chosen, symbols), symbols, state.embedding, width,
                 part(state.layer[0].input, width));
  for (Size l = 0; l < state.layers; l++) {
    float* output = l + 1 < state.layers ? state.layer[l + 1].input : state.stream;
    layer_forward(state, state.layer[l], output);
  }
  normalise(state, state.norm, state.stream);
  through<false>(state, part(state.norm.normed, width), width, state.output, symbols,
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
  back_through(state, part(state.norm.normed, width), part(state.normed_back, width), width,
               state.output, symbols, part(state.logits, symbols));
  for (Size p = 0; p < state.rows * width * lanes; p += lanes) {
    store_floats(state.back + p, Floats{});
  }
  normalise_back(state, state.norm, state.normed_back, state.back);
  for (Size l = state.layers - 1; l >= 0; l--) layer_back(state, state.layer[l]);
  multiply<true>(symbols, width, state.length, part(state.chosen, symbols).by_feature(),
                 part(state.back, width).by_feature(),
                 Place{state.embedding.slope, width * lanes, lanes});
}

// Copies the tables of distances to where there are zeros around them.
void place_distances(const AttentionState& state) {
  for (Size l = 0; l < state.layers; l++) {
    const AttentionLayer& layer = state.layer[l];
    float* distance = layer.distance + (tall - 1) * state.width;
    for (Size p = 0; p < state.length * state.width; p++) distance[p] = layer.relative.value[p];
  }
}

bool step(AttentionState& state, const std::int32_t* tokens, const std::int32_t* labels,
          float factor) {
  place_distances(state);
  for (Size p = 0; p < state.size; p++) store_floats(state.slope + p * lanes, Floats{});
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
  move(state, factor, [&](Size p) {
    Floats slope[lanes];
    for (Size i = 0; i < lanes; i++) slope[i] = load_floats(state.slope + (p + i) * lanes);
    return over_lanes<false, lanes>(slope);
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
