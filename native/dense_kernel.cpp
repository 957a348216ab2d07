// A step of minibatch descent of a network for tables, for one instruction set: this file is
// compiled once for each. Matrix products come from a BLAS library; everything between them is done
// here, in as few passes over memory as possible.
#include "dense_types.hpp"
#include "row_losses.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

// The arrays are stored by rows: to BLAS, which counts by columns, each is its transpose.

// out [count][outputs], rows `stride` apart = below [count][inputs + 1] times weight^T
template <class T>
void preactivations(const Dense<T>& dense, const DenseLayer<T>& layer, Size count, T* out,
                    int stride) {
  const int rows = static_cast<int>(count), width = layer.inputs + 1;
  const T one = 1, zero = 0;
  dense.gemm("T", "N", &layer.outputs, &rows, &width, &one, layer.weight, &width, layer.below,
             &width, &zero, out, &stride);
}

// into [outputs][inputs + 1] = beta * into + alpha * grad^T [outputs][count] times below
template <class T>
void add_gradient(const Dense<T>& dense, const DenseLayer<T>& layer, Size count, T alpha, T beta,
                  T* into) {
  const int rows = static_cast<int>(count), width = layer.inputs + 1;
  dense.gemm("N", "T", &width, &layer.outputs, &rows, &alpha, layer.below, &width, layer.grad,
             &layer.outputs, &beta, into, &width);
}

// grad_inputs [count][inputs] = grad [count][outputs] times weight without its biases
template <class T>
void input_gradient(const Dense<T>& dense, const DenseLayer<T>& layer, Size count, T* grad_inputs) {
  const int rows = static_cast<int>(count), width = layer.inputs + 1;
  const T one = 1, zero = 0;
  dense.gemm("N", "N", &layer.inputs, &rows, &layer.outputs, &one, layer.weight, &width, layer.grad,
             &layer.outputs, &zero, grad_inputs, &layer.inputs);
}

template <class T>
void forward(const Dense<T>& dense, const std::int64_t* index, Size count) {
  const DenseLayer<T>& lowest = dense.layers[0];
  const Size width = lowest.inputs + 1;
  for (Size row = 0; row < count; row++) {
    const T* from = dense.inputs + index[row] * width;
    T* to = lowest.below + row * width;
    for (Size i = 0; i < width; i++) to[i] = from[i];
  }
  for (Size l = 0; l + 1 < dense.layer_count; l++) {
    const DenseLayer<T>& layer = dense.layers[l];
    const int stride = layer.outputs + 1;
    T* out = dense.layers[l + 1].below;
    preactivations(dense, layer, count, out, stride);
    for (Size row = 0; row < count; row++) {
      T* sum = out + row * stride;
      // A sum that is not a number stays so, and is detected in the loss.
      for (Size i = 0; i < layer.outputs; i++) sum[i] = sum[i] <= 0 ? T(0) : sum[i];
    }
  }
  const DenseLayer<T>& top = dense.layers[dense.layer_count - 1];
  preactivations(dense, top, count, dense.output, top.outputs);
}

// Returns the sum of the rows' losses; the gradients are those of their mean.
template <class T>
double losses(const Dense<T>& dense, const std::int64_t* index, Size count) {
  const DenseLayer<T>& top = dense.layers[dense.layer_count - 1];
  const Size heads = top.outputs;
  double total = 0;
  for (Size row = 0; row < count; row++) {
    T* grad = top.grad + row * heads;
    const double loss = row_loss(dense.head, dense.output + row * heads,
                                 dense.targets + index[row] * heads, grad, heads);
    const double weight = dense.row_weights ? static_cast<double>(dense.row_weights[index[row]]) *
                                                  dense.row_weight_scale
                                            : 1.0;
    total += weight * loss;
    const T share = static_cast<T>(weight / static_cast<double>(count));
    for (Size h = 0; h < heads; h++) grad[h] *= share;
  }
  return total;
}

// Kingma and Ba (2015) with the decay of Loshchilov and Hutter (2019).
template <class T>
void adapt(const Dense<T>& dense, const DenseLayer<T>& layer, double first_power,
           double second_power) {
  constexpr double first_decay = 0.9, second_decay = 0.999, epsilon = 1e-8;
  const double scale = __builtin_sqrt(1 - second_power);
  const T rate = static_cast<T>(dense.learning_rate * scale / (1 - first_power));
  const T keep = static_cast<T>(1 - dense.learning_rate * dense.weight_decay);
  const T small = static_cast<T>(epsilon * scale);
  const T old_first = static_cast<T>(first_decay), new_first = static_cast<T>(1 - first_decay);
  const T old_second = static_cast<T>(second_decay), new_second = static_cast<T>(1 - second_decay);
  const Size size = Size{layer.outputs} * (layer.inputs + 1);
  T* __restrict weight = layer.weight;
  T* __restrict first = layer.first;
  T* __restrict second = layer.second;
  const T* __restrict gradient = dense.gradient;
  for (Size i = 0; i < size; i++) {
    const T grad = gradient[i];
    first[i] = old_first * first[i] + new_first * grad;
    second[i] = old_second * second[i] + new_second * grad * grad;
    weight[i] = keep * weight[i] - rate * first[i] / (root(second[i]) + small);
  }
}

template <class T>
double step(Dense<T>& dense, const std::int64_t* index, Size count) {
  forward(dense, index, count);
  const double total = losses(dense, index, count);
  dense.step++;
  const double first_power = __builtin_pow(0.9, static_cast<double>(dense.step));
  const double second_power = __builtin_pow(0.999, static_cast<double>(dense.step));
  for (Size l = dense.layer_count - 1; l >= 0; l--) {
    const DenseLayer<T>& layer = dense.layers[l];
    if (l > 0) {
      T* grad_inputs = dense.layers[l - 1].grad;
      input_gradient(dense, layer, count, grad_inputs);
      for (Size row = 0; row < count; row++) {
        const T* fired = layer.below + row * (layer.inputs + 1);
        T* grad = grad_inputs + row * layer.inputs;
        for (Size i = 0; i < layer.inputs; i++) grad[i] = fired[i] > 0 ? grad[i] : T(0);
      }
    }
    if (dense.adaptive) {
      add_gradient(dense, layer, count, T(1), T(0), dense.gradient);
      adapt(dense, layer, first_power, second_power);
    } else {
      const double keep = 1 - dense.learning_rate * dense.weight_decay;
      add_gradient(dense, layer, count, static_cast<T>(-dense.learning_rate), static_cast<T>(keep),
                   layer.weight);
    }
  }
  return total;
}

}  // namespace

extern const DenseKernel dense_kernel;
const DenseKernel dense_kernel = {step<float>, step<double>};

}  // namespace elegans::ELEGANS_INSTRUCTION_SET
