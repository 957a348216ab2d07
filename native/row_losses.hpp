// Losses of one row of a table, and their derivatives by a network's outputs.
#pragma once

#include "dense_types.hpp"

namespace elegans::ELEGANS_INSTRUCTION_SET {
namespace {

float exponential(float x) { return __builtin_expf(x); }
double exponential(double x) { return __builtin_exp(x); }
float logarithm(float x) { return __builtin_logf(x); }
double logarithm(double x) { return __builtin_log(x); }
float log_of_one_plus(float x) { return __builtin_log1pf(x); }
double log_of_one_plus(double x) { return __builtin_log1p(x); }
float root(float x) { return __builtin_sqrtf(x); }
double root(double x) { return __builtin_sqrt(x); }

// One row's loss, and its derivative by the outputs.
template <class T>
T row_loss(Head head, const T* output, const T* target, T* grad, Size heads) {
  if (head == Head::logistic) {
    const T x = output[0], size = x < 0 ? -x : x, small = exponential(-size);
    grad[0] = (x < 0 ? small : T(1)) / (1 + small) - target[0];
    return (x < 0 ? T(0) : x) + log_of_one_plus(small) - target[0] * x;
  }
  if (head == Head::square) {
    T loss = 0;
    for (Size h = 0; h < heads; h++) {
      grad[h] = output[h] - target[h];
      loss += grad[h] * grad[h] / 2;
    }
    return loss;
  }
  T largest = output[0], total = 0, loss = 0;
  for (Size h = 1; h < heads; h++) largest = output[h] > largest ? output[h] : largest;
  for (Size h = 0; h < heads; h++) {
    grad[h] = exponential(output[h] - largest);
    total += grad[h];
    loss -= target[h] * (output[h] - largest);
  }
  for (Size h = 0; h < heads; h++) grad[h] = grad[h] / total - target[h];
  return loss + logarithm(total);
}

// The same of softmax with the class instead of a target for every output.
template <class T>
T class_loss(const T* output, Size label, T* grad, Size heads) {
  T largest = output[0], total = 0;
  for (Size h = 1; h < heads; h++) largest = output[h] > largest ? output[h] : largest;
  for (Size h = 0; h < heads; h++) {
    grad[h] = exponential(output[h] - largest);
    total += grad[h];
  }
  const T loss = logarithm(total) - (output[label] - largest);
  for (Size h = 0; h < heads; h++) grad[h] /= total;
  grad[label] -= 1;
  return loss;
}

}  // namespace
}  // namespace elegans::ELEGANS_INSTRUCTION_SET
