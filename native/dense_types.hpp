// Networks for tables in training: the plain data that the kernels and their callers share.
//
// Nothing here has a function body, for the reason given in types.hpp.
#pragma once

#include "types.hpp"

namespace elegans {

// C = alpha op(A) op(B) + beta C in the Fortran convention: columns are contiguous.
template <class T>
using Gemm = void (*)(const char* op_a, const char* op_b, const int* m, const int* n, const int* k,
                      const T* alpha, const T* a, const int* lda, const T* b, const int* ldb,
                      const T* beta, T* c, const int* ldc);

enum class Head { logistic, softmax, square };

// One layer: its weights [outputs][inputs + 1], biases in the last column, and AdamW's moments of
// the same shape, null with plain descent. The outputs of layer l are the inputs of layer l + 1.
template <class T>
struct DenseLayer {
  int inputs, outputs;
  T *weight, *first, *second;
  T* below;  // [batch][inputs + 1]: the layer's inputs, the last column ones
  T* grad;   // [batch][outputs]: derivative of the loss by the layer's preactivations
};

template <class T>
struct Dense {
  Gemm<T> gemm;
  Size layer_count;
  DenseLayer<T>* layers;
  T* output;    // [batch][outputs of the last layer]
  T* gradient;  // as large as the largest layer, null with plain descent
  Head head;
  double learning_rate, weight_decay;
  bool adaptive;            // AdamW, else plain descent
  std::int64_t step;        // steps taken before
  const T* inputs;          // [rows][inputs of the first layer + 1]
  const T* targets;         // [rows][outputs of the last layer]
  const T* row_weights;     // [rows], or null
  double row_weight_scale;  // the factor of row weights
};

// The function of one instruction set: takes a step on the rows with these indices, and returns the
// sum of their losses before it.
struct DenseKernel {
  double (*step_single)(Dense<float>& dense, const std::int64_t* index, Size count);
  double (*step_double)(Dense<double>& dense, const std::int64_t* index, Size count);
};

}  // namespace elegans
