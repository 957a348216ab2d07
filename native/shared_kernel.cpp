// A step of networks for tables whose members share a trunk, for one instruction set: this file is
// compiled once for each. Large matrix products come from a BLAS library. No sum depends on how
// tasks are distributed over threads.
#include "row_losses.hpp"
#include "shared_types.hpp"
#include "threefry.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

template <class T>
struct Vector;
template <>
struct Vector<float> {
  typedef float type __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
};
template <>
struct Vector<double> {
  typedef double type __attribute__((vector_size(lanes * 4), aligned(8), may_alias));
};
template <class T>
using Lanes = typename Vector<T>::type;
template <class T>
constexpr Size lane_count = lanes * 4 / static_cast<Size>(sizeof(T));

template <class T>
ELEGANS_INLINE const Lanes<T>& at(const T* x) {
  return *reinterpret_cast<const Lanes<T>*>(x);
}
template <class T>
ELEGANS_INLINE Lanes<T>& at(T* x) {
  return *reinterpret_cast<Lanes<T>*>(x);
}

// into [m][n] = op(a) times op(b), all stored by rows
template <class T>
void multiply(const Shared<T>& net, const char* op_a, const char* op_b, Size m, Size n, Size k,
              const T* a, Size lda, const T* b, Size ldb, T* into, Size stride) {
  if (m == 0 || n == 0 || k == 0) return;
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), sums = static_cast<int>(k);
  const int a_stride = static_cast<int>(lda), b_stride = static_cast<int>(ldb);
  const int c_stride = static_cast<int>(stride);
  const T one = 1, zero = 0;
  net.gemm(op_b, op_a, &columns, &rows, &sums, &one, b, &b_stride, a, &a_stride, &zero, into,
           &c_stride);
}

template <class T>
Size rows_of(const Shared<T>& net) {
  return net.members * net.batch;
}

template <class T>
Size row_at(const Shared<T>& net, Size member, Size i) {
  if (net.order) return net.order[member * net.row_count + net.begin + i];
  const Size row = net.begin + i;  // blocks of outputs have one shape; the last row fills the last
  return row < net.row_count ? row : net.row_count - 1;
}

template <class T>
void gather(Shared<T>& net, Size member) {
  const Size count = rows_of(net), before = net.dense - net.embedded * embedding_size;
  const T* factor = net.value + net.factor + member * net.columns;
  for (Size i = 0; i < net.batch; i++) {
    const Size row = row_at(net, member, i), r = member * net.batch + i;
    for (Size f = 0; f < net.look_ups; f++) {
      net.batch_code[f * count + r] = net.code[row * net.look_ups + f];
      net.batch_position[f * count + r] = net.position[row * net.look_ups + f];
    }
    T* raw = net.raw + r * net.dense;
    for (Size d = 0; d < before; d++) raw[d] = net.input[row * net.statics + d];
    for (Size e = 0; e < net.embedded; e++) {
      const Size level = net.level[row * net.embedded + e];
      for (Size d = 0; d < embedding_size; d++) {
        raw[before + e * embedding_size + d] =
            net.value[net.embedding + level * embedding_size + d];
      }
    }
    for (Size d = 0; d < net.dense; d++) {
      net.scaled[r * net.dense + d] = raw[d] * factor[net.dense_column[d]];
    }
  }
}

// What a look-up adds to the preactivations of the chunk: sum [rows][chunk], the part that does not
// depend on the position in the bin.
template <class T, Size size>
void form_sums(const Shared<T>& net, const LookUp& look_up, Size begin, T* sum) {
  constexpr Size width = lane_count<T>;
  const Size stride = net.width[0], rows = look_up.bins + look_up.levels;
  const T* weight = net.value + look_up.first * stride + begin;
  for (Size v = 0; v < size; v += width) {
    Lanes<T> total{};
    for (Size t = 0; t < look_up.bins; t++) total += at(weight + t * stride + v);
    Lanes<T> before = -total;
    for (Size t = 0; t < look_up.bins; t++) {
      at(sum + t * size + v) = before;
      before += 2 * at(weight + t * stride + v);
    }
    for (Size t = look_up.bins; t < rows; t++) {
      at(sum + t * size + v) = at(weight + t * stride + v);
    }
  }
}

template <class T, Size size>
void look_up_forward(Shared<T>& net, Size begin, T* scratch) {
  constexpr Size width = lane_count<T>;
  const Size stride = net.width[0], count = rows_of(net);
  for (Size f = 0; f < net.look_ups; f++) {
    const LookUp& look_up = net.look_up[f];
    form_sums<T, size>(net, look_up, begin, scratch);
    const T* weight = net.value + look_up.first * stride + begin;
    for (Size member = 0; member < net.members; member++) {
      const T factor = net.value[net.factor + member * net.columns + look_up.column];
      for (Size r = member * net.batch; r < (member + 1) * net.batch; r++) {
        const Size code = net.batch_code[f * count + r];
        if (code == no_level) continue;
        const T slope = 2 * factor * net.batch_position[f * count + r];
        const T *sum = scratch + code * size, *inner = weight + code * stride;
        T* into = net.activation[0] + r * stride + begin;
#pragma GCC unroll 16
        for (Size v = 0; v < size; v += width) {
          at(into + v) += factor * at(sum + v) + slope * at(inner + v);
        }
      }
    }
  }
}

// Gradients of a look-up's weights and, summed over this chunk, of the members' factors.
template <class T, Size size>
void look_up_backward(Shared<T>& net, Size begin, T* scratch) {
  constexpr Size width = lane_count<T>, vectors = size / width;
  const Size stride = net.width[0], count = rows_of(net);
  T* const sum = scratch;
  T* const whole = scratch + net.table_rows * size;
  T* const inside = whole + net.table_rows * size;
  for (Size f = 0; f < net.look_ups; f++) {
    const LookUp& look_up = net.look_up[f];
    const Size rows = look_up.bins + look_up.levels;
    form_sums<T, size>(net, look_up, begin, sum);
    for (Size i = 0; i < rows * size; i++) whole[i] = inside[i] = 0;
    const T* weight = net.value + look_up.first * stride + begin;
    for (Size member = 0; member < net.members; member++) {
      const T factor = net.value[net.factor + member * net.columns + look_up.column];
      Lanes<T> product[vectors] = {};
      for (Size r = member * net.batch; r < (member + 1) * net.batch; r++) {
        const Size code = net.batch_code[f * count + r];
        if (code == no_level) continue;
        const T position = net.batch_position[f * count + r];
        const T* delta = net.delta[0] + r * stride + begin;
#pragma GCC unroll 16
        for (Size v = 0; v < vectors; v++) {
          const Size i = v * width;
          const Lanes<T> slope = at(delta + i), scaled = factor * slope;
          product[v] +=
              slope * (at(sum + code * size + i) + 2 * position * at(weight + code * stride + i));
          at(whole + code * size + i) += scaled;
          at(inside + code * size + i) += position * scaled;
        }
      }
      for (Size v = 1; v < vectors; v++) product[0] += product[v];
      T total = 0;
      for (Size i = 0; i < width; i++) total += product[0][i];
      T& partial =
          net.factor_partial[(begin / shared_chunk * net.look_ups + f) * net.members + member];
      partial = begin % shared_chunk ? partial + total : total;
    }
    T* gradient = net.gradient + look_up.first * stride + begin;
    for (Size v = 0; v < size; v += width) {
      Lanes<T> total{}, after{};
      for (Size t = 0; t < look_up.bins; t++) total += at(whole + t * size + v);
      for (Size t = look_up.bins - 1; t >= 0; t--) {
        at(gradient + t * stride + v) = 2 * (after + at(inside + t * size + v)) - total;
        after += at(whole + t * size + v);
      }
      for (Size t = look_up.bins; t < rows; t++) {
        at(gradient + t * stride + v) = at(whole + t * size + v);
      }
    }
  }
}

// Calls `function` with parts of a chunk whose sizes are constants.
template <class T, class Wide, class Narrow>
void by_parts(const Shared<T>& net, Size chunk, Wide wide, Narrow narrow) {
  const Size begin = chunk * shared_chunk;
  if (net.width[0] - begin >= shared_chunk) return wide(begin);
  for (Size b = begin; b < net.width[0]; b += shared_lanes) narrow(b);
}

template <class T>
Size chunk_size(Size width, Size begin) {
  return width - begin < shared_chunk ? width - begin : shared_chunk;
}

// ReLU and dropout of a chunk of neurons. The 16 bits that decide about a neuron come from the
// counter (step, row, neuron), whatever the instruction set.
template <class T>
void activate(Shared<T>& net, Size layer, Size begin) {
  const Size stride = net.width[layer], size = chunk_size<T>(stride, begin);
  const Size blocks = (stride + shared_chunk - 1) / shared_chunk * shared_lanes;
  const auto threshold = static_cast<std::uint32_t>(net.dropout * 65536);
  const T scale = static_cast<T>(1 / (1 - net.dropout));
  const T* bias = net.value + net.bias[layer] + begin;
  const Key key = {net.dropout_key.k0, net.dropout_key.k1 ^ static_cast<std::uint32_t>(layer)};
  for (Size r = 0; r < rows_of(net); r++) {
    T* into = net.activation[layer] + r * stride + begin;
    T keep[shared_chunk];
    if (threshold > 0) {
      const Size first = r * blocks + begin / shared_chunk * shared_lanes;
      for (Size b = 0; b < shared_lanes; b += lanes) {
        const Words c1 = spread(static_cast<std::uint32_t>(first + b)) + lane_numbers();
        const Pair words = random_words(key, spread(static_cast<std::uint32_t>(net.step)), c1);
        for (Size i = 0; i < lanes; i++) {
          keep[b + i] = (words.w0[i] & 0xFFFF) < threshold ? T(0) : scale;
          keep[b + i + 16] = (words.w0[i] >> 16) < threshold ? T(0) : scale;
          keep[b + i + 32] = (words.w1[i] & 0xFFFF) < threshold ? T(0) : scale;
          keep[b + i + 48] = (words.w1[i] >> 16) < threshold ? T(0) : scale;
        }
      }
      for (Size i = 0; i < size; i++) {
        const T sum = into[i] + bias[i];
        into[i] = sum <= 0 ? T(0) : sum * keep[i];  // a sum that is not a number stays so
      }
    } else {
      for (Size i = 0; i < size; i++) {
        const T sum = into[i] + bias[i];
        into[i] = sum <= 0 ? T(0) : sum;
      }
    }
  }
}

// Derivatives by preactivations of those by activations, in place.
template <class T>
void deactivate(Shared<T>& net, Size layer, Size row_begin, Size row_end, Size begin, Size size) {
  const Size stride = net.width[layer];
  const T scale = static_cast<T>(1 / (1 - net.dropout));
  for (Size r = row_begin; r < row_end; r++) {
    const T* fired = net.activation[layer] + r * stride + begin;
    T* delta = net.delta[layer] + r * stride + begin;
    for (Size i = 0; i < size; i++) delta[i] = fired[i] > 0 ? delta[i] * scale : T(0);
  }
}

template <class T>
void add_up_bias(Shared<T>& net, Size layer, Size begin, Size size) {
  T* gradient = net.gradient + net.bias[layer] + begin;
  for (Size i = 0; i < size; i++) gradient[i] = 0;
  for (Size r = 0; r < rows_of(net); r++) {
    const T* delta = net.delta[layer] + r * net.width[layer] + begin;
    for (Size i = 0; i < size; i++) gradient[i] += delta[i];
  }
}

template <class T>
void first(Shared<T>& net, Size chunk) {
  const Size begin = chunk * shared_chunk, stride = net.width[0];
  const Size size = chunk_size<T>(stride, begin);
  T* into = net.activation[0] + begin;
  if (net.dense > 0) {
    multiply(net, "N", "N", rows_of(net), size, net.dense, net.scaled, net.dense,
             net.value + net.front + begin, stride, into, stride);
  } else {
    for (Size r = 0; r < rows_of(net); r++) {
      for (Size i = 0; i < size; i++) into[r * stride + i] = 0;
    }
  }
  T* scratch = net.scratch + chunk * 3 * net.table_rows * shared_chunk;
  by_parts(
      net, chunk, [&](Size b) { look_up_forward<T, shared_chunk>(net, b, scratch); },
      [&](Size b) { look_up_forward<T, shared_lanes>(net, b, scratch); });
  activate(net, 0, begin);
}

template <class T>
void hidden(Shared<T>& net, Size layer, Size chunk) {
  const Size begin = chunk * shared_chunk, stride = net.width[layer], below = net.width[layer - 1];
  multiply(net, "N", "T", rows_of(net), chunk_size<T>(stride, begin), below,
           net.activation[layer - 1], below, net.value + net.weight[layer] + begin * below, below,
           net.activation[layer] + begin, stride);
  activate(net, layer, begin);
}

template <class T>
void outputs(Shared<T>& net, Size member) {
  const Size stride = net.width[net.layers - 1], first_row = member * net.batch;
  multiply(net, "N", "T", net.batch, net.heads, stride,
           net.activation[net.layers - 1] + first_row * stride, stride,
           net.value + net.head_weight + member * net.heads * stride, stride,
           net.output + first_row * net.heads, net.heads);
  const T* bias = net.value + net.head_bias + member * net.heads;
  for (Size i = 0; i < net.batch; i++) {
    for (Size h = 0; h < net.heads; h++) net.output[(first_row + i) * net.heads + h] += bias[h];
  }
}

template <class T>
void losses(Shared<T>& net, Size member) {
  outputs(net, member);
  const Size stride = net.width[net.layers - 1], first_row = member * net.batch;
  const Size heads = net.heads;
  T* head_gradient = net.gradient + net.head_bias + member * heads;
  for (Size h = 0; h < heads; h++) head_gradient[h] = 0;
  net.loss[member] = 0;
  for (Size i = 0; i < net.batch; i++) {
    const Size row = row_at(net, member, i);
    T* gradient = net.output_gradient + (first_row + i) * heads;
    const T* output = net.output + (first_row + i) * heads;
    const T* target = net.target + row * net.target_count;
    const double loss = net.head == Head::softmax
                            ? class_loss(output, static_cast<Size>(target[0]), gradient, heads)
                            : row_loss(net.head, output, target, gradient, heads);
    const double weight = net.row_weight ? static_cast<double>(net.row_weight[row]) : 1.0;
    net.loss[member] += weight * loss;
    const T share = static_cast<T>(weight / static_cast<double>(rows_of(net)));
    for (Size h = 0; h < heads; h++) {
      gradient[h] *= share;
      head_gradient[h] += gradient[h];
    }
  }
  const T* gradient = net.output_gradient + first_row * heads;
  const T* fired = net.activation[net.layers - 1] + first_row * stride;
  const Size offset = net.head_weight + member * heads * stride;
  multiply(net, "T", "N", heads, stride, net.batch, gradient, heads, fired, stride,
           net.gradient + offset, stride);
  multiply(net, "N", "N", net.batch, stride, heads, gradient, heads, net.value + offset, stride,
           net.delta[net.layers - 1] + first_row * stride, stride);
  deactivate(net, net.layers - 1, first_row, first_row + net.batch, 0, stride);
}

template <class T>
void backward(Shared<T>& net, Size layer, Size task) {
  const Size stride = net.width[layer], below = net.width[layer - 1], count = rows_of(net);
  const Size chunks = (stride + shared_chunk - 1) / shared_chunk;
  if (task < chunks) {
    const Size begin = task * shared_chunk, size = chunk_size<T>(stride, begin);
    multiply(net, "T", "N", size, below, count, net.delta[layer] + begin, stride,
             net.activation[layer - 1], below, net.gradient + net.weight[layer] + begin * below,
             below);
    add_up_bias(net, layer, begin, size);
    return;
  }
  const Size begin = (task - chunks) * shared_chunk, size = chunk_size<T>(below, begin);
  multiply(net, "N", "N", count, size, stride, net.delta[layer], stride,
           net.value + net.weight[layer] + begin, below, net.delta[layer - 1] + begin, below);
  deactivate(net, layer - 1, 0, count, begin, size);
}

template <class T>
void first_backward(Shared<T>& net, Size task) {
  const Size stride = net.width[0], chunks = (stride + shared_chunk - 1) / shared_chunk;
  if (task >= chunks) {
    const Size first_row = (task - chunks) * net.batch;
    multiply(net, "N", "T", net.batch, net.dense, stride, net.delta[0] + first_row * stride, stride,
             net.value + net.front, stride, net.raw_gradient + first_row * net.dense, net.dense);
    return;
  }
  const Size begin = task * shared_chunk, size = chunk_size<T>(stride, begin);
  multiply(net, "T", "N", net.dense, size, rows_of(net), net.scaled, net.dense,
           net.delta[0] + begin, stride, net.gradient + net.front + begin, stride);
  add_up_bias(net, 0, begin, size);
  T* scratch = net.scratch + task * 3 * net.table_rows * shared_chunk;
  by_parts(
      net, task, [&](Size b) { look_up_backward<T, shared_chunk>(net, b, scratch); },
      [&](Size b) { look_up_backward<T, shared_lanes>(net, b, scratch); });
}

template <class T>
void reduce(Shared<T>& net, Size task) {
  const Size chunks = (net.width[0] + shared_chunk - 1) / shared_chunk;
  if (task < net.members) {
    T* gradient = net.gradient + net.factor + task * net.columns;
    for (Size c = 0; c < net.columns; c++) gradient[c] = 0;
    for (Size f = 0; f < net.look_ups; f++) {
      for (Size chunk = 0; chunk < chunks; chunk++) {
        gradient[net.look_up[f].column] +=
            net.factor_partial[(chunk * net.look_ups + f) * net.members + task];
      }
    }
    for (Size r = task * net.batch; r < (task + 1) * net.batch; r++) {
      for (Size d = 0; d < net.dense; d++) {
        gradient[net.dense_column[d]] +=
            net.raw[r * net.dense + d] * net.raw_gradient[r * net.dense + d];
      }
    }
    return;
  }
  T* gradient = net.gradient + net.embedding;
  for (Size i = 0; i < net.decayed - net.embedding; i++) gradient[i] = 0;
  const Size before = net.dense - net.embedded * embedding_size;
  for (Size r = 0; r < rows_of(net) && net.embedded > 0; r++) {
    const Size member = r / net.batch, row = row_at(net, member, r % net.batch);
    const T* factor = net.value + net.factor + member * net.columns;
    for (Size d = before; d < net.dense; d++) {
      const Size level = net.level[row * net.embedded + (d - before) / embedding_size];
      gradient[level * embedding_size + (d - before) % embedding_size] +=
          factor[net.dense_column[d]] * net.raw_gradient[r * net.dense + d];
    }
  }
}

template <class T>
void norm(Shared<T>& net, Size part) {
  const Size begin = net.size * part / norm_parts, end = net.size * (part + 1) / norm_parts;
  constexpr Size width = lane_count<T>;
  Lanes<T> sums{};
  Size i = begin;
  for (; i + width <= end; i += width) sums += at(net.gradient + i) * at(net.gradient + i);
  double total = 0;
  for (Size lane = 0; lane < width; lane++) total += static_cast<double>(sums[lane]);
  for (; i < end; i++) total += static_cast<double>(net.gradient[i]) * net.gradient[i];
  net.norm[part] = total;
}

// Kingma and Ba (2015) with the decay of Loshchilov and Hutter (2019), after clipping.
template <class T>
void adapt(Shared<T>& net, Size begin, Size end, double decay, double shrink) {
  constexpr double first_decay = 0.9, second_decay = 0.999, epsilon = 1e-8;
  const double steps = static_cast<double>(net.step + 1);
  const double scale = __builtin_sqrt(1 - __builtin_pow(second_decay, steps));
  const T rate = static_cast<T>(net.rate * scale / (1 - __builtin_pow(first_decay, steps)));
  const T keep = static_cast<T>(1 - net.rate * decay), small = static_cast<T>(epsilon * scale);
  const T old_first = static_cast<T>(first_decay), new_first = static_cast<T>(1 - first_decay);
  const T old_second = static_cast<T>(second_decay), new_second = static_cast<T>(1 - second_decay);
  const T factor = static_cast<T>(shrink);
  T* __restrict value = net.value;
  T* __restrict mean = net.first;
  T* __restrict square = net.second;
  const T* __restrict gradient = net.gradient;
  for (Size i = begin; i < end; i++) {
    const T slope = factor * gradient[i];
    mean[i] = old_first * mean[i] + new_first * slope;
    square[i] = old_second * square[i] + new_second * slope * slope;
    value[i] = keep * value[i] - rate * mean[i] / (root(square[i]) + small);
  }
}

template <class T>
void descend(Shared<T>& net, Size begin, Size end, double decay, double shrink) {
  const T keep = static_cast<T>(1 - net.rate * decay), rate = static_cast<T>(net.rate * shrink);
  for (Size i = begin; i < end; i++) net.value[i] = keep * net.value[i] - rate * net.gradient[i];
}

template <class T>
void update(Shared<T>& net, Size part) {
  const Size begin = net.size * part / norm_parts, end = net.size * (part + 1) / norm_parts;
  double total = 0;
  for (Size p = 0; p < norm_parts; p++) total += net.norm[p];
  const double size = __builtin_sqrt(total), shrink = size > net.clip ? net.clip / size : 1.0;
  const Size middle = begin > net.decayed ? begin : end < net.decayed ? end : net.decayed;
  const auto take = net.adaptive ? adapt<T> : descend<T>;
  take(net, begin, middle, net.decay, shrink);
  take(net, middle, end, 0.0, shrink);
}

template <class T>
void run(Shared<T>& net, SharedPhase phase, Size layer, Size task) {
  switch (phase) {
    case SharedPhase::gather:
      return gather(net, task);
    case SharedPhase::first:
      return first(net, task);
    case SharedPhase::hidden:
      return hidden(net, layer, task);
    case SharedPhase::outputs:
      return outputs(net, task);
    case SharedPhase::losses:
      return losses(net, task);
    case SharedPhase::backward:
      return backward(net, layer, task);
    case SharedPhase::first_backward:
      return first_backward(net, task);
    case SharedPhase::reduction:
      return reduce(net, task);
    case SharedPhase::norm:
      return norm(net, task);
    case SharedPhase::update:
      return update(net, task);
  }
}

}  // namespace

extern const SharedKernel shared_kernel;
const SharedKernel shared_kernel = {run<float>, run<double>};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
