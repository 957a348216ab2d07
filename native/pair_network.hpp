// One network on pairs in training: memory, checks and bookkeeping around a kernel.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "checks.hpp"
#include "network.hpp"
#include "pair_types.hpp"

namespace elegans {

struct PairOptions {
  std::string activation;
  int degree;
  bool population;
  Size batch_size;  // order^2 for the population
  std::vector<double> learning_rates, decays;
  bool decay_in_gradient;
  double penalty, penalty_norm, penalty_exponent;
  Key sample_key;
  std::int64_t step;
};

class PairNetwork {
 public:
  // hidden is [width][2 * order], u before v; output and table are [order][width] and
  // [order][order].
  PairNetwork(const float* hidden, const float* output, const std::int32_t* table, Size width,
              Size order, const PairOptions& options);
  PairNetwork(const PairNetwork&) = delete;
  PairNetwork& operator=(const PairNetwork&) = delete;

  Size width() const { return state_.width; }
  Size order() const { return state_.order; }
  Size batch_size() const { return state_.batch; }
  std::int64_t step() const { return static_cast<std::int64_t>(state_.step); }
  std::int64_t diverged_at() const { return state_.diverged_at; }
  const char* instruction_set() const { return kernel_.name; }
  // Means over the steps of the last advance; not a number if there were none.
  double loss() const { return loss_; }
  double error() const { return error_; }

  // Takes one step per factor; returns the steps done, fewer if it diverged or was stopped.
  Size advance(const float* factors, Size steps, Pulse pulse);
  // Outputs [count][order] on pairs by their numbers, a * order + b.
  void outputs(const std::uint32_t* number, Size count, float* outputs, Pulse pulse);
  // wrong[i]: on the pair number[i] another output is at least the right one, or is not a number.
  void wrong(const std::uint32_t* number, Size count, bool* wrong, Pulse pulse);
  // Numbers of the pairs of a step, batch_size of them.
  void minibatch(std::int64_t step, std::uint32_t* number);
  // Copies the parameters out, in the constructor's layout.
  void parameters(float* hidden, float* output);

  // As of other networks.
  void stop() { __atomic_store_n(&stop_, true, __ATOMIC_RELAXED); }
  void resume() { __atomic_store_n(&stop_, false, __ATOMIC_RELAXED); }
  bool stopped() const { return __atomic_load_n(&stop_, __ATOMIC_RELAXED); }

 private:
  Pairs make_pairs(Size count);
  void check_draws(std::int64_t last_step) const;
  void copy_table(const std::int32_t* table);
  template <class Function>
  void each_parameter(Function function) const;
  template <class Function>
  void each_tile(const std::uint32_t* number, Size count, Pulse pulse, Function function);

  const Kernel& kernel_;
  PairState state_{};
  Memory memory_;
  double loss_, error_;
  bool stop_ = false;
  std::atomic<bool> busy_ = false;
};

}  // namespace elegans
