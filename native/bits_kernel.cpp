// A step of a transformer that is read at a class token, for one instruction set: this file is
// compiled once for each.
//
// Only the class token is a query, so that a head's scores are products of tokens with one vector,
// key^T query, and its output is the value of one mixture of tokens. For each example, only two
// passes over its tokens in each direction grow with n, and they are products of matrices: lanes
// are features, or heads. Everything after attention is done for a block of examples. Scales and
// shifts of norms are multiplied into the maps that use them; those of scores have no shift, since
// a softmax does not change with what all positions share. All sums have a fixed order.
#include "bits_types.hpp"
#include "descent.hpp"
#include "elementary.hpp"
#include "losses.hpp"
#include "products.hpp"
#include "threefry.hpp"
#include "vectors.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

constexpr float norm_epsilon = 1e-5f;
constexpr int vectors_at_once = chunk == 16 ? 4 : 2;
constexpr int rows_at_once = chunk == 16 ? 6 : 4;
constexpr int tokens_at_once = 12;
constexpr float smallest_total = 1e-20f;  // below it, weights in tables may have vanished

enum Site : std::uint32_t { at_embedding, at_attention, at_out_proj, at_mlp };

// Rows of `size` numbers, which are columns of a product, `stride` apart.
struct Rows {
  float* at;
  Size stride, size;
  ELEGANS_INLINE Vectors vectors() const { return {at, lanes, stride}; }
  ELEGANS_INLINE Place place() const { return {at, lanes, stride}; }
};
ELEGANS_INLINE Rows rows_of(float* at, Size size) { return {at, size, size}; }
ELEGANS_INLINE Rows rows_of(const BitsMatrix& matrix) {
  return {matrix.value, matrix.stride, matrix.stride};
}
ELEGANS_INLINE Rows grads_of(const BitsMatrix& matrix) {
  return {matrix.grad, matrix.stride, matrix.stride};
}

// out [count] = factors [count][terms] times in [terms], or added to the old values.
template <bool added>
void combine(Size count, Size terms, Numbers factors, Rows in, Rows out) {
  multiply<added, vectors_at_once, rows_at_once>(out.size / lanes, count, terms, in.vectors(),
                                                 factors, out.place());
}

// The same plus a bias.
void combine_with(const float* bias, Size count, Size terms, Numbers factors, Rows in, Rows out) {
  for (Size row = 0; row < count; row++) {
    for (Size f = 0; f < out.size; f += lanes) {
      store_floats(out.at + row * out.stride + f, load_floats(bias + f));
    }
  }
  combine<true>(count, terms, factors, in, out);
}

// sum [size] += the rows.
void add_rows(Size count, Rows in, float* sum) {
  for (Size f = 0; f < in.size; f += lanes) {
    Floats total = load_floats(sum + f);
    for (Size row = 0; row < count; row++) total += load_floats(in.at + row * in.stride + f);
    store_floats(sum + f, total);
  }
}

template <class Function>
ELEGANS_INLINE void each_vector(Size size, Function function) {
  for (Size p = 0; p < size; p += lanes) function(p);
}
void add(float* sum, const float* x, Size size) {
  each_vector(size,
              [&](Size p) { store_floats(sum + p, load_floats(sum + p) + load_floats(x + p)); });
}
void scale_by(float* x, const float* factor, Size size) {
  each_vector(size,
              [&](Size p) { store_floats(x + p, load_floats(x + p) * load_floats(factor + p)); });
}
void clear(float* x, Size size) {
  each_vector(size, [&](Size p) { store_floats(x + p, Floats{}); });
}

// out [columns][out_stride] = the transpose of in [rows][in_stride]; rows up to out_stride are
// written, missing ones as zeros.
void transpose_matrix(const float* in, Size in_stride, Size rows, Size columns, float* out,
                      Size out_stride) {
  for (Size row = 0; row < out_stride; row += lanes) {
    for (Size column = 0; column < columns; column += lanes) {
      Floats square[lanes];
      for (Size i = 0; i < lanes; i++) {
        const bool real = row + i < rows;
        square[i] = real ? load_floats(in + (row + i) * in_stride + column) : Floats{};
      }
      transpose(square);
      const Size left = columns - column < lanes ? columns - column : lanes;
      for (Size i = 0; i < left; i++)
        store_floats(out + (column + i) * out_stride + row, square[i]);
    }
  }
}

// --- dropout ---

Key folded(Key key, std::uint32_t number) {
  std::uint32_t first = 0, second = number;
  threefry(key.k0, key.k1, first, second);
  return {first, second};
}

template <Size... i>
ELEGANS_INLINE void store_pairs(std::uint32_t* out, Words a, Words b,
                                std::integer_sequence<Size, i...>) {
  const Words low = __builtin_shufflevector(a, b, (i / 2 + i % 2 * lanes)...);
  const Words high = __builtin_shufflevector(a, b, (lanes / 2 + i / 2 + i % 2 * lanes)...);
  __builtin_memcpy(out, &low, sizeof low);
  __builtin_memcpy(out + lanes, &high, sizeof high);
}

// The half words of the entries of an example, whole vectors of blocks of four of them.
void draw_halves(Key key, std::uint32_t example, Size count, std::uint16_t* out) {
  for (Size block = 0; 4 * block < count; block += lanes) {
    Words first = spread(example), second = lane_numbers() + static_cast<std::uint32_t>(block);
    threefry(spread(key.k0), spread(key.k1), first, second);
    store_pairs(reinterpret_cast<std::uint32_t*>(out + 4 * block), first, second,
                std::make_integer_sequence<Size, lanes>{});
  }
}

// The factors of entries, from their half words.
ELEGANS_INLINE Floats keep(const BitsState& state, const std::uint16_t* drawn) {
  Halves halves;
  __builtin_memcpy(&halves, drawn, sizeof halves);
  const Words words = __builtin_convertvector(halves, Words);
  return where((Ints)(words >= state.drop), spread(state.kept));
}

// --- norms ---

// Normalises rows [count][padded_width] in place, without scale and shift, as many at once as there
// are lanes.
void normalise(const BitsState& state, float* rows, float* inverse, Size count) {
  const Size padded_width = state.padded_width;
  const float share = 1.0f / static_cast<float>(state.width);
  for (Size first = 0; first < count; first += lanes) {
    const Size here = count - first < lanes ? count - first : lanes;
    float* x = rows + first * padded_width;
    Floats sum[lanes] = {};
    for (Size r = 0; r < here; r++) {
      for (Size f = 0; f < padded_width; f += lanes)
        sum[r] += load_floats(x + r * padded_width + f);
    }
    const Floats mean = over_lanes<false, lanes>(sum) * share;
    for (Size r = 0; r < here; r++) {
      const Floats own = spread(mean[r]);
      sum[r] = Floats{};
      for (Size f = 0; f < padded_width; f += lanes) {
        const Floats y =
            (load_floats(x + r * padded_width + f) - own) * load_floats(state.real + f);
        store_floats(x + r * padded_width + f, y);
        sum[r] += y * y;
      }
    }
    const Floats scale = 1.0f / root(over_lanes<false, lanes>(sum) * share + norm_epsilon);
    for (Size r = 0; r < here; r++) {
      inverse[first + r] = scale[r];
      for (Size f = 0; f < padded_width; f += lanes) {
        store_floats(x + r * padded_width + f, load_floats(x + r * padded_width + f) * scale[r]);
      }
    }
  }
}

// Derivatives by normalised rows become those by the rows before the norm.
void normalise_backward(const BitsState& state, const float* centred, const float* inverse,
                        float* grad_out, Size count) {
  const Size padded_width = state.padded_width;
  const float share = 1.0f / static_cast<float>(state.width);
  for (Size first = 0; first < count; first += lanes) {
    const Size here = count - first < lanes ? count - first : lanes;
    Floats sum[lanes] = {}, moment[lanes] = {};
    for (Size r = 0; r < here; r++) {
      for (Size f = (first + r) * padded_width; f < (first + r + 1) * padded_width; f += lanes) {
        sum[r] += load_floats(grad_out + f);
        moment[r] += load_floats(grad_out + f) * load_floats(centred + f);
      }
    }
    const Floats mean = over_lanes<false, lanes>(sum) * share;
    const Floats slant = over_lanes<false, lanes>(moment) * share;
    for (Size r = 0; r < here; r++) {
      const Size row = (first + r) * padded_width;
      const Floats scale = spread(inverse[first + r]), own = spread(mean[r]);
      for (Size f = 0; f < padded_width; f += lanes) {
        const Floats x =
            load_floats(grad_out + row + f) - own - load_floats(centred + row + f) * slant[r];
        store_floats(grad_out + row + f, x * scale * load_floats(state.real + f));
      }
    }
  }
}

// --- parameters and their folded forms, once a step ---

// A map of scale * centred + shift, multiplied by `factor`.
void fold(const BitsMatrix& in, const BitsMatrix& scale, const BitsMatrix& shift, float factor,
          const float* bias, const BitsFolded& out) {
  const Size stride = in.stride;
  for (Size row = 0; row < in.rows; row++) {
    Floats sum{};
    for (Size f = 0; f < stride; f += lanes) {
      const Floats x = load_floats(in.value + row * stride + f) * factor;
      store_floats(out.matrix.value + row * stride + f, x * load_floats(scale.value + f));
      sum += x * load_floats(shift.value + f);
    }
    if (bias) out.bias[row] = bias[row] + lane_sum(sum);
  }
  if (out.transposed) {
    const Size padded_features = (in.rows + lanes - 1) / lanes * lanes;
    transpose_matrix(out.matrix.value, stride, in.rows, in.columns, out.transposed,
                     padded_features);
  }
}

void unfold(const BitsMatrix& in, const BitsMatrix& scale, const BitsMatrix& shift, float factor,
            float* bias_grad, const BitsFolded& from) {
  const Size stride = in.stride;
  for (Size row = 0; row < in.rows; row++) {
    const float own = bias_grad ? from.bias_grad[row] : 0.0f;
    if (bias_grad) bias_grad[row] += own;
    for (Size f = 0; f < stride; f += lanes) {
      const Size place = row * stride + f;
      const Floats grad = load_floats(from.matrix.grad + place) * factor;
      const Floats x = load_floats(in.value + place);
      store_floats(in.grad + place, load_floats(in.grad + place) +
                                        grad * load_floats(scale.value + f) +
                                        own * load_floats(shift.value + f));
      store_floats(scale.grad + f, load_floats(scale.grad + f) + grad * x);
      store_floats(shift.grad + f, load_floats(shift.grad + f) + own * x);
    }
  }
}

// Calls `function` for each map with normalised inputs.
template <class Function>
void each_folded(const BitsState& state, Function function) {
  const BitsMatrix* array = state.array;
  const auto one = [&](const BitsMatrix& in, int scale, float factor, const BitsMatrix* bias,
                       const BitsFolded& out) {
    function(in, array[scale], array[scale + 1], factor, bias, out);
  };
  one(array[bits_query], bits_scale1, 1.0f, &array[bits_query_bias], state.query);
  one(array[bits_key], bits_scale1, state.score_scale, nullptr, state.key);
  one(array[bits_value], bits_scale1, 1.0f, &array[bits_value_bias], state.value);
  one(array[bits_hidden], bits_scale2, 1.0f, &array[bits_hidden_bias], state.hidden_map);
  one(state.difference, bits_scale3, 1.0f, &state.no_bias, state.output);
}

// The tokens of 0 and 1 at each position, and of the class.
void place_tokens(const BitsState& state) {
  const Size padded_width = state.padded_width, n = state.n;
  const BitsMatrix *token = &state.array[bits_token], *position = &state.array[bits_position];
  each_vector(padded_width, [&](Size f) {
    const bool bag = state.encoding == BitsEncoding::bag;
    for (Size t = 0; t < n; t++) {
      const Floats own = load_floats(position->value + t * padded_width + f);
      for (Size bit = 0; bit < 2; bit++) {
        const Floats x =
            bag ? (bit ? own : Floats{}) : own + load_floats(token->value + bit * padded_width + f);
        store_floats(state.table + (2 * t + bit) * padded_width + f, x);
      }
    }
    Floats x = load_floats(state.array[bits_class].value + f);
    if (state.encoding == BitsEncoding::trained)
      x += load_floats(position->value + n * padded_width + f);
    store_floats(state.table + 2 * n * padded_width + f, x);
  });
}

void place_tokens_backward(const BitsState& state) {
  const Size padded_width = state.padded_width, n = state.n;
  const bool trained = state.encoding == BitsEncoding::trained;
  float *token = state.array[bits_token].grad, *position = state.array[bits_position].grad;
  const float* own = state.table_grad + 2 * n * padded_width;
  add(state.array[bits_class].grad, own, padded_width);
  if (trained) add(position + n * padded_width, own, padded_width);
  for (Size row = 0; row < 2 * n; row++) {
    if (state.encoding != BitsEncoding::bag) {
      add(token + row % 2 * padded_width, state.table_grad + row * padded_width, padded_width);
    }
    if (trained)
      add(position + row / 2 * padded_width, state.table_grad + row * padded_width, padded_width);
  }
}

// Splits the parameters, and computes the forms that steps and tables use.
void place(BitsState& state) {
  const float* from = state.parameter;
  for (const BitsMatrix& matrix : state.array) {
    for (Size row = 0; row < matrix.rows; row++, from += matrix.columns) {
      __builtin_memcpy(matrix.value + row * matrix.stride, from,
                       static_cast<std::size_t>(matrix.columns) * sizeof(float));
    }
  }
  place_tokens(state);
  const float* logits = state.array[bits_output].value;
  each_vector(state.padded_width, [&](Size f) {
    store_floats(state.difference.value + f,
                 load_floats(logits + state.padded_width + f) - load_floats(logits + f));
  });
  each_folded(state, [](const BitsMatrix& in, const BitsMatrix& scale, const BitsMatrix& shift,
                        float factor, const BitsMatrix* bias, const BitsFolded& out) {
    fold(in, scale, shift, factor, bias ? bias->value : nullptr, out);
  });
  const BitsMatrix &out_proj = state.array[bits_out_proj], &residual = state.array[bits_residual];
  transpose_matrix(out_proj.value, state.padded_width, out_proj.rows, state.width,
                   state.out_proj_transposed, state.padded_features);
  transpose_matrix(residual.value, state.padded_hidden, residual.rows, state.hidden,
                   state.residual_transposed, state.padded_width);
}

void clear_grads(const BitsState& state) {
  for (const BitsMatrix& matrix : state.array) clear(matrix.grad, matrix.rows * matrix.stride);
  each_folded(state, [](const BitsMatrix& in, const BitsMatrix&, const BitsMatrix&, float,
                        const BitsMatrix*, const BitsFolded& out) {
    clear(out.matrix.grad, in.rows * in.stride);
    clear(out.bias_grad, (in.rows + lanes - 1) / lanes * lanes);
  });
  clear(state.difference.grad, state.padded_width);
  clear(state.no_bias.grad, state.no_bias.stride);
  clear(state.table_grad, (2 * state.n + 1) * state.padded_width);
}

// Assembles the gradient.
void collect(BitsState& state) {
  place_tokens_backward(state);
  each_folded(state, [](const BitsMatrix& in, const BitsMatrix& scale, const BitsMatrix& shift,
                        float factor, const BitsMatrix* bias, const BitsFolded& out) {
    unfold(in, scale, shift, factor, bias ? bias->grad : nullptr, out);
  });
  float* logits = state.array[bits_output].grad;
  each_vector(state.padded_width, [&](Size f) {
    const Floats grad = load_floats(state.difference.grad + f);
    store_floats(logits + f, negated(grad));
    store_floats(logits + state.padded_width + f, grad);
  });
  float* to = state.gradient;
  for (const BitsMatrix& matrix : state.array) {
    for (Size row = 0; row < matrix.rows; row++, to += matrix.columns) {
      __builtin_memcpy(to, matrix.grad + row * matrix.stride,
                       static_cast<std::size_t>(matrix.columns) * sizeof(float));
    }
  }
}

// --- attention ---

// One example's part of a block's arrays.
struct Example {
  BitsNormed token;
  std::uint16_t* drawn;
  float *weights, *dropped, *asked, *grad_asked, *mixed, *grad_mixed;
  float *total, *grad_total;
};
Example example_of(const BitsState& state, Size e) {
  const Size heads = e * state.heads * state.padded_width, places = e * state.tokens;
  return {{state.token.centred + places * state.padded_width, state.token.inverse + places},
          state.drawn + e * state.drawn_size,
          state.weights + places * state.padded_heads,
          state.dropped + places * state.padded_heads,
          state.asked + heads,
          state.grad_asked + heads,
          state.mixed + heads,
          state.grad_mixed + heads,
          state.total + e * state.padded_heads,
          state.grad_total + e * state.padded_heads};
}

struct Keys {
  Key site[4];
};

// The row of the table with the token of a position.
ELEGANS_INLINE Size row_of(const BitsState& state, const std::uint8_t* bits, Size t) {
  return t == state.n ? 2 * t : 2 * t + bits[t];
}

void embed(const BitsState& state, const Keys& keys, std::uint32_t number, const std::uint8_t* bits,
           const Example& example, float* own) {
  const Size padded_width = state.padded_width;
  if (state.drop) {
    draw_halves(keys.site[at_embedding], number, state.tokens * state.width, example.drawn);
  }
  for (Size t = 0; t < state.tokens; t++) {
    const float* from = state.table + row_of(state, bits, t) * padded_width;
    const std::uint16_t* drawn = example.drawn + t * state.width;
    for (Size f = 0; f < padded_width; f += lanes) {
      const Floats x = load_floats(from + f);
      store_floats(example.token.centred + t * padded_width + f,
                   state.drop ? x * keep(state, drawn + f) : x);
    }
  }
  const float* last = example.token.centred + state.n * padded_width;
  each_vector(padded_width, [&](Size f) { store_floats(own + f, load_floats(last + f)); });
  normalise(state, example.token.centred, example.token.inverse, state.tokens);
}

// scores [tokens][padded_heads] = tokens times one vector per head, [heads][padded_width].
void score(const BitsState& state, const float* centred, Size count, const float* by_head,
           float* scores) {
  transpose_matrix(by_head, state.padded_width, state.heads, state.width, state.heads_transposed,
                   state.padded_heads);
  multiply<false, 1, tokens_at_once>(state.padded_heads / lanes, count, state.width,
                                     Vectors{state.heads_transposed, lanes, state.padded_heads},
                                     Numbers{centred, state.padded_width, 1},
                                     Place{scores, lanes, state.padded_heads});
}

// The factors of the weights of positions first ... first + lanes - 1, for the heads starting at
// `head`.
void keep_weights(const BitsState& state, Size first, Size head, Floats* factor) {
  for (Size i = 0; i < lanes; i++) {
    const std::uint16_t* drawn = state.draws + (head + i) * state.tokens + first;
    factor[i] = head + i < state.heads ? keep(state, drawn) : Floats{};
  }
  transpose(factor);
}

void attend(const BitsState& state, const Keys& keys, std::uint32_t number,
            const Example& example) {
  const Size padded_heads = state.padded_heads, tokens = state.tokens;
  score(state, example.token.centred, tokens, example.asked, example.weights);
  if (state.drop) draw_halves(keys.site[at_attention], number, state.heads * tokens, state.draws);
  for (Size head = 0; head < padded_heads; head += lanes) {
    float *weights = example.weights + head, *dropped = example.dropped + head;
    Floats top = load_floats(weights), sum{}, total{};
    for (Size t = 1; t < tokens; t++) top = larger(top, load_floats(weights + t * padded_heads));
    for (Size t = 0; t < tokens; t++) {
      const Floats e = exp_negative(load_floats(weights + t * padded_heads) - top);
      store_floats(weights + t * padded_heads, e);
      sum += e;
    }
    const Floats share = 1.0f / sum;
    for (Size first = 0; first < tokens; first += lanes) {
      Floats factor[lanes];
      if (state.drop) keep_weights(state, first, head, factor);
      const Size here = tokens - first < lanes ? tokens - first : lanes;
      for (Size i = 0; i < here; i++) {
        const Size place = (first + i) * padded_heads;
        const Floats weight = load_floats(weights + place) * share;
        const Floats left = state.drop ? weight * factor[i] : weight;
        store_floats(weights + place, weight);
        store_floats(dropped + place, left);
        total += left;
      }
    }
    store_floats(example.total + head, total);
  }
  combine<false>(state.heads, tokens, Numbers{example.dropped, 1, padded_heads},
                 rows_of(example.token.centred, state.padded_width),
                 rows_of(example.mixed, state.padded_width));
}

// Derivatives by the heads' mixtures become those by scores, which replace the weights, and by the
// vectors that scores are products with.
void attend_backward(const BitsState& state, const Example& example) {
  const Size padded_heads = state.padded_heads, tokens = state.tokens;
  float* grad_out = state.scores;
  score(state, example.token.centred, tokens, example.grad_mixed, grad_out);
  for (Size head = 0; head < padded_heads; head += lanes) {
    const Floats all = load_floats(example.grad_total + head);
    Floats sum{};
    for (Size t = head; t < tokens * padded_heads; t += padded_heads) {
      const Floats x = load_floats(example.dropped + t) * (load_floats(grad_out + t) + all);
      store_floats(grad_out + t, x);
      sum += x;
    }
    for (Size t = head; t < tokens * padded_heads; t += padded_heads) {
      store_floats(example.weights + t,
                   load_floats(grad_out + t) - load_floats(example.weights + t) * sum);
    }
  }
  combine<false>(state.heads, tokens, Numbers{example.weights, 1, padded_heads},
                 rows_of(example.token.centred, state.padded_width),
                 rows_of(example.grad_asked, state.padded_width));
}

// Derivatives by the tokens, added to those by the table.
void embed_backward(const BitsState& state, const std::uint8_t* bits, const Example& example,
                    const float* grad_asking, const float* grad_own) {
  const Size padded_width = state.padded_width, padded_heads = state.padded_heads;
  const Rows grad_out = rows_of(state.grad_place, padded_width);
  for (Size first = 0; first < state.tokens; first += lanes) {
    const Size left = state.tokens - first, here = left < lanes ? left : lanes;
    combine<false>(here, state.heads,
                   Numbers{example.dropped + first * padded_heads, padded_heads, 1},
                   rows_of(example.grad_mixed, padded_width), grad_out);
    combine<true>(here, state.heads,
                  Numbers{example.weights + first * padded_heads, padded_heads, 1},
                  rows_of(example.asked, padded_width), grad_out);
    float* last = left <= lanes ? grad_out.at + (left - 1) * padded_width : nullptr;
    if (last) add(last, grad_asking, padded_width);
    normalise_backward(state, example.token.centred + first * padded_width,
                       example.token.inverse + first, grad_out.at, here);
    if (last) add(last, grad_own, padded_width);
    for (Size r = 0; r < here; r++) {
      float* grad = state.table_grad + row_of(state, bits, first + r) * padded_width;
      const std::uint16_t* drawn = example.drawn + (first + r) * state.width;
      for (Size f = 0; f < padded_width; f += lanes) {
        const Floats x = load_floats(grad_out.at + r * padded_width + f);
        store_floats(grad + f,
                     load_floats(grad + f) + (state.drop ? x * keep(state, drawn + f) : x));
      }
    }
  }
}

// out [features] = for each head's features, the products of that head's row with a matrix's rows.
void read_by_head(const BitsState& state, const float* by_head, const BitsMatrix& matrix,
                  float* out) {
  const Size padded_width = state.padded_width, size = state.head_size;
  for (Size first = 0; first < matrix.rows; first += lanes) {
    Floats sum[lanes] = {};
    const Size here = matrix.rows - first < lanes ? matrix.rows - first : lanes;
    for (Size i = 0; i < here; i++) {
      const float* row = by_head + (first + i) / size * padded_width;
      const float* other = matrix.value + (first + i) * padded_width;
      for (Size f = 0; f < padded_width; f += lanes)
        sum[i] += load_floats(row + f) * load_floats(other + f);
    }
    store_floats(out + first, over_lanes<false, lanes>(sum));
  }
}

// by_head [count][heads][padded_width] = features [count][heads, head size] times a matrix, head by
// head.
void spread_by_head(const BitsState& state, Size count, float* features, const BitsMatrix& matrix,
                    float* by_head) {
  const Size padded_width = state.padded_width, size = state.head_size;
  for (Size head = 0; head < state.heads; head++) {
    combine<false>(count, size, Numbers{features + head * size, state.padded_features, 1},
                   Rows{matrix.value + head * size * padded_width, padded_width, padded_width},
                   Rows{by_head + head * padded_width, state.heads * padded_width, padded_width});
  }
}

// The gradient of that matrix.
void grads_by_head(const BitsState& state, Size count, float* features, const BitsMatrix& matrix,
                   float* by_head) {
  const Size padded_width = state.padded_width, size = state.head_size;
  for (Size head = 0; head < state.heads; head++) {
    combine<true>(size, count, Numbers{features + head * size, 1, state.padded_features},
                  Rows{by_head + head * padded_width, state.heads * padded_width, padded_width},
                  Rows{matrix.grad + head * size * padded_width, padded_width, padded_width});
  }
}

// The heads' outputs: the values of the mixtures, and their biases times the sums of weights.
void find(const BitsState& state, Size count) {
  const Size size = state.head_size;
  for (Size e = 0; e < count; e++) {
    float* found = state.found + e * state.padded_features;
    read_by_head(state, example_of(state, e).mixed, state.value.matrix, found);
    for (Size f = 0; f < state.value.matrix.rows; f++) {
      found[f] += state.total[e * state.padded_heads + f / size] * state.value.bias[f];
    }
  }
}

void find_backward(const BitsState& state, Size count) {
  const Size size = state.head_size;
  for (Size e = 0; e < count; e++) {
    const float* grad_out = state.grad_found + e * state.padded_features;
    float* grad_total = state.grad_total + e * state.padded_heads;
    clear(grad_total, state.padded_heads);
    for (Size f = 0; f < state.value.matrix.rows; f++) {
      grad_total[f / size] += grad_out[f] * state.value.bias[f];
      state.value.bias_grad[f] += grad_out[f] * state.total[e * state.padded_heads + f / size];
    }
  }
  spread_by_head(state, count, state.grad_found, state.value.matrix, state.grad_mixed);
  grads_by_head(state, count, state.grad_found, state.value.matrix, state.mixed);
}

// --- what follows attention ---

void keep_rows(const BitsState& state, Key key, std::uint32_t first, Size count, float* kept) {
  for (Size e = 0; e < count; e++) {
    draw_halves(key, first + static_cast<std::uint32_t>(e), state.width, state.draws);
    for (Size f = 0; f < state.padded_width; f += lanes) {
      store_floats(kept + e * state.padded_width + f, keep(state, state.draws + f));
    }
  }
}

// gelu(x) = x Phi(x), and its derivative.
void apply_gelu(const BitsState& state, Size count) {
  for (Size p = 0; p < count * state.padded_hidden; p += lanes) {
    const Floats x = load_floats(state.preactivations + p);
    const Floats share = 0.5f + 0.5f * error_function(x * 0.707106781f);
    const Floats density = exp_negative(-0.5f * x * x) * 0.398942280f;
    store_floats(state.gelu + p, x * share);
    store_floats(state.gelu_derivative + p, share + x * density);
  }
}

// From the heads' outputs and the class token to the outputs.
void answer(const BitsState& state, const Keys* keys, std::uint32_t first, Size count) {
  const Size padded_width = state.padded_width, all = count * padded_width;
  const BitsMatrix* array = state.array;
  const bool drop = keys && state.drop;
  float* stream = state.stream;
  combine_with(array[bits_out_proj_bias].value, count, array[bits_out_proj].rows,
               Numbers{state.found, state.padded_features, 1}, rows_of(array[bits_out_proj]),
               rows_of(stream, padded_width));
  if (drop) {
    keep_rows(state, keys->site[at_out_proj], first, count, state.out_proj_kept);
    scale_by(stream, state.out_proj_kept, all);
  }
  add(stream, state.own, all);
  __builtin_memcpy(state.norm2.centred, stream, static_cast<std::size_t>(all) * sizeof(float));
  normalise(state, state.norm2.centred, state.norm2.inverse, count);
  combine_with(state.hidden_map.bias, count, state.width,
               Numbers{state.norm2.centred, padded_width, 1},
               rows_of(state.hidden_map.transposed, state.padded_hidden),
               rows_of(state.preactivations, state.padded_hidden));
  apply_gelu(state, count);
  float* last = state.norm3.centred;
  combine_with(array[bits_residual_bias].value, count, state.hidden,
               Numbers{state.gelu, state.padded_hidden, 1},
               rows_of(state.residual_transposed, padded_width), rows_of(last, padded_width));
  if (drop) {
    keep_rows(state, keys->site[at_mlp], first, count, state.mlp_kept);
    scale_by(last, state.mlp_kept, all);
  }
  add(last, stream, all);
  normalise(state, last, state.norm3.inverse, count);
  for (Size row = 0; row < count; row += lanes) {
    Floats sum[lanes] = {};
    for (Size i = 0; i < lanes && row + i < count; i++) {
      for (Size f = 0; f < padded_width; f += lanes) {
        sum[i] += load_floats(last + (row + i) * padded_width + f) *
                  load_floats(state.output.matrix.value + f);
      }
    }
    store_floats(state.output_row + row, over_lanes<false, lanes>(sum) + state.output.bias[0]);
  }
}

// From the derivatives by the outputs to those by the heads' outputs and by the class token.
void answer_backward(const BitsState& state, Size count) {
  const Size padded_width = state.padded_width, all = count * padded_width;
  const BitsMatrix* array = state.array;
  const Rows grad_out = rows_of(state.grad_out, padded_width),
             padded_hidden = rows_of(state.grad_hidden, state.padded_hidden);
  float* stream = state.grad_own;
  const Rows one = rows_of(state.output.matrix);
  combine<true>(1, count, Numbers{state.grad_row, 1, 1}, rows_of(state.norm3.centred, padded_width),
                grads_of(state.output.matrix));
  for (Size e = 0; e < count; e++) state.output.bias_grad[0] += state.grad_row[e];
  combine<false>(count, 1, Numbers{state.grad_row, 1, 1}, one, rows_of(stream, padded_width));
  normalise_backward(state, state.norm3.centred, state.norm3.inverse, stream, count);

  __builtin_memcpy(grad_out.at, stream, static_cast<std::size_t>(all) * sizeof(float));
  if (state.drop) scale_by(grad_out.at, state.mlp_kept, all);
  add_rows(count, grad_out, array[bits_residual_bias].grad);
  combine<true>(state.width, count, Numbers{grad_out.at, 1, padded_width},
                rows_of(state.gelu, state.padded_hidden), grads_of(array[bits_residual]));
  combine<false>(count, state.width, Numbers{grad_out.at, padded_width, 1},
                 rows_of(array[bits_residual]), padded_hidden);
  scale_by(padded_hidden.at, state.gelu_derivative, count * state.padded_hidden);
  add_rows(count, padded_hidden, state.hidden_map.bias_grad);
  combine<true>(state.hidden, count, Numbers{padded_hidden.at, 1, state.padded_hidden},
                rows_of(state.norm2.centred, padded_width), grads_of(state.hidden_map.matrix));
  combine<false>(count, state.hidden, Numbers{padded_hidden.at, state.padded_hidden, 1},
                 rows_of(state.hidden_map.matrix), grad_out);
  normalise_backward(state, state.norm2.centred, state.norm2.inverse, grad_out.at, count);
  add(stream, grad_out.at, all);

  __builtin_memcpy(grad_out.at, stream, static_cast<std::size_t>(all) * sizeof(float));
  if (state.drop) scale_by(grad_out.at, state.out_proj_kept, all);
  add_rows(count, grad_out, array[bits_out_proj_bias].grad);
  combine<true>(array[bits_out_proj].rows, count, Numbers{state.found, 1, state.padded_features},
                grad_out, grads_of(array[bits_out_proj]));
  combine<false>(count, state.width, Numbers{grad_out.at, padded_width, 1},
                 rows_of(state.out_proj_transposed, state.padded_features),
                 rows_of(state.grad_found, state.padded_features));
}

struct Sums {
  bool finite;
  double loss, wrong;
};

// Loss and mistakes of a block; its outputs' derivatives go into slope_row.
Sums block_losses(const BitsState& state, Size count) {
  const float share = state.loss.scale / static_cast<float>(state.batch);
  Ints infinite{};
  Sums sums{true, 0, 0};
  for (Size e = 0; e < count; e += lanes) {
    const Ints real =
        (Ints)((Ints)lane_numbers() < (Ints)spread(static_cast<std::uint32_t>(count - e)));
    const Floats output = load_floats(state.output_row + e),
                 label = load_floats(state.label_row + e);
    infinite |= real & (Ints)(output - output != 0.0f);
    const Term term = loss_term(state.loss.kind, output, label);
    store_floats(state.grad_row + e, where(real, term.grad * share));
    sums.loss += static_cast<double>(lane_sum(where(real, term.loss * share)));
    sums.wrong +=
        static_cast<double>(lane_sum(where(real & ~(Ints)(output * label > 0.0f), spread(1.0f))));
  }
  sums.finite = sign_bits((Words)infinite) == 0;
  return sums;
}

void forward(const BitsState& state, const Keys& keys, std::uint32_t first, Size count) {
  combine_with(state.query.bias, count, state.width,
               Numbers{state.token.centred + state.n * state.padded_width,
                       state.tokens * state.padded_width, 1},
               rows_of(state.query.transposed, state.padded_features),
               rows_of(state.asking, state.padded_features));
  spread_by_head(state, count, state.asking, state.key.matrix, state.asked);
  for (Size e = 0; e < count; e++) {
    attend(state, keys, first + static_cast<std::uint32_t>(e), example_of(state, e));
  }
  find(state, count);
  answer(state, &keys, first, count);
}

void backward(const BitsState& state, const std::uint8_t* const* bits, Size count) {
  answer_backward(state, count);
  find_backward(state, count);
  for (Size e = 0; e < count; e++) {
    const Example example = example_of(state, e);
    attend_backward(state, example);
    read_by_head(state, example.grad_asked, state.key.matrix,
                 state.grad_asking + e * state.padded_features);
  }
  grads_by_head(state, count, state.asking, state.key.matrix, state.grad_asked);
  const Rows asking = rows_of(state.grad_asking, state.padded_features);
  add_rows(count, asking, state.query.bias_grad);
  const Size rows = state.query.matrix.rows;
  float* last = state.token.centred + state.n * state.padded_width;
  combine<true>(rows, count, Numbers{asking.at, 1, state.padded_features},
                Rows{last, state.tokens * state.padded_width, state.padded_width},
                grads_of(state.query.matrix));
  combine<false>(count, rows, Numbers{asking.at, state.padded_features, 1},
                 rows_of(state.query.matrix), rows_of(state.grad_out, state.padded_width));
  for (Size e = 0; e < count; e++) {
    const Size row = e * state.padded_width;
    embed_backward(state, bits[e], example_of(state, e), state.grad_out + row,
                   state.grad_own + row);
  }
}

// Scales the gradient to a norm of at most `clip`.
void shorten(BitsState& state) {
  Floats squares{};
  each_vector(state.size, [&](Size p) {
    const Floats x = load_floats(state.gradient + p);
    squares += x * x;
  });
  const double length = __builtin_sqrt(static_cast<double>(lane_sum(squares)));
  const double scale = state.clip / (length + 1e-6);
  if (scale >= 1) return;
  each_vector(state.size, [&](Size p) {
    store_floats(state.gradient + p, load_floats(state.gradient + p) * static_cast<float>(scale));
  });
}

bool step(BitsState& state, const std::uint8_t* bits, const float* labels,
          const std::uint32_t* index, float factor) {
  place(state);
  clear_grads(state);
  const Key key = folded(state.dropout_key, static_cast<std::uint32_t>(state.step));
  const Keys keys{{folded(key, at_embedding), folded(key, at_attention), folded(key, at_out_proj),
                   folded(key, at_mlp)}};
  double loss = 0, wrong = 0;
  for (Size first = 0; first < state.batch; first += state.block) {
    const Size left = state.batch - first, count = left < state.block ? left : state.block;
    const auto number = static_cast<std::uint32_t>(first);
    const std::uint8_t* rows[largest_bits_block];
    for (Size e = 0; e < count; e++) {
      rows[e] = bits + static_cast<Size>(index[first + e]) * state.n;
      state.label_row[e] = labels[index[first + e]];
      embed(state, keys, number + static_cast<std::uint32_t>(e), rows[e], example_of(state, e),
            state.own + e * state.padded_width);
    }
    forward(state, keys, number, count);
    const Sums sums = block_losses(state, count);
    if (!sums.finite) {
      state.diverged_at = static_cast<std::int64_t>(state.step);
      return false;
    }
    loss += sums.loss;
    wrong += sums.wrong;
    backward(state, rows, count);
  }
  collect(state);
  if (state.clip < __builtin_inf()) shorten(state);
  descend(state, factor, [&](Size p) { return load_floats(state.gradient + p); });
  state.step++;
  state.loss_sum += loss;
  state.error_sum += wrong / static_cast<double>(state.batch);
  return true;
}

// --- evaluation: without dropout there are 2 n + 1 tokens ---

void prepare(BitsState& state) {
  place(state);
  const Size count = 2 * state.n + 1, padded_width = state.padded_width,
             padded_features = state.padded_features;
  const BitsNormed& tokens = state.table_normed;
  __builtin_memcpy(tokens.centred, state.table,
                   static_cast<std::size_t>(count * padded_width) * sizeof(float));
  normalise(state, tokens.centred, tokens.inverse, count);
  combine_with(state.query.bias, 1, state.width,
               Numbers{tokens.centred + (count - 1) * padded_width, padded_width, 1},
               rows_of(state.query.transposed, padded_features),
               rows_of(state.asking, padded_features));
  spread_by_head(state, 1, state.asking, state.key.matrix, state.asked);
  combine_with(state.value.bias, count, state.width, Numbers{tokens.centred, padded_width, 1},
               rows_of(state.value.transposed, padded_features),
               rows_of(state.table_value, padded_features));
  score(state, tokens.centred, count, state.asked, state.table_score_by_head);
  for (Size row = 0; row < count; row++) {
    for (Size f = 0; f < state.value.matrix.rows; f++) {
      state.table_score[row * padded_features + f] =
          state.table_score_by_head[row * state.padded_heads + f / state.head_size];
    }
  }
  each_vector(padded_features, [&](Size f) {
    Floats top = load_floats(state.table_score + f);
    for (Size p = f; p < count * padded_features; p += padded_features)
      top = larger(top, load_floats(state.table_score + p));
    for (Size p = f; p < count * padded_features; p += padded_features) {
      const Floats weight = exp_negative(load_floats(state.table_score + p) - top);
      store_floats(state.table_weight + p, weight);
      store_floats(state.table_part + p, weight * load_floats(state.table_value + p));
    }
  });
}

// An example's heads' outputs, from the tables; with its own largest score if its weights have
// vanished beside those of other tokens.
void find_in_tables(const BitsState& state, const std::uint8_t* bits, float* found) {
  const Size padded_features = state.padded_features;
  in_blocks<vectors_at_once>(padded_features / lanes, [&](auto height, Size first) {
    constexpr int most = height.value;
    const Size feature = first * lanes;
    Floats total[most] = {}, sum[most] = {};
    for (Size t = 0; t < state.tokens; t++) {
      const Size row = row_of(state, bits, t) * padded_features + feature;
#pragma GCC unroll 4
      for (int v = 0; v < most; v++) {
        total[v] += load_floats(state.table_weight + row + v * lanes);
        sum[v] += load_floats(state.table_part + row + v * lanes);
      }
    }
    for (int v = 0; v < most; v++) {
      const Size f = feature + v * lanes;
      if (sign_bits((Words)(total[v] < smallest_total))) {
        const float* scores = state.table_score + f;
        Floats top = load_floats(scores + row_of(state, bits, state.n) * padded_features);
        for (Size t = 0; t < state.n; t++) {
          top = larger(top, load_floats(scores + row_of(state, bits, t) * padded_features));
        }
        total[v] = sum[v] = Floats{};
        for (Size t = 0; t < state.tokens; t++) {
          const Size row = row_of(state, bits, t) * padded_features;
          const Floats weight = exp_negative(load_floats(scores + row) - top);
          total[v] += weight;
          sum[v] += weight * load_floats(state.table_value + f + row);
        }
      }
      store_floats(found + f, sum[v] / total[v]);
    }
  });
}

void outputs(BitsState& state, const std::uint8_t* bits, Size count, float* output) {
  const float* own = state.table + 2 * state.n * state.padded_width;
  for (Size e = 0; e < count; e++) {
    find_in_tables(state, bits + e * state.n, state.found + e * state.padded_features);
    each_vector(state.padded_width, [&](Size f) {
      store_floats(state.own + e * state.padded_width + f, load_floats(own + f));
    });
  }
  answer(state, nullptr, 0, count);
  for (Size e = 0; e < count; e++) output[e] = state.output_row[e];
}

}  // namespace

extern const BitsKernel bits_kernel;
const BitsKernel bits_kernel = {step, prepare, outputs};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
