// One two-layer network in training: memory, checks and bookkeeping around a kernel.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.hpp"
#include "types.hpp"

namespace elegans {

// Thrown by an evaluation that stop() ended.
struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::vector<Size> support;
  int label_sign;
  double mix;
  double noise;
  std::int64_t sample_size;  // 0: online
  std::string order;
  Size batch_size;
  std::string activation;
  int degree;
  double scale;
  std::vector<double> coefficients;
  std::string loss;
  double loss_scale;
  std::vector<double> learning_rates, decays;
  bool decay_in_gradient;
  Key sample_key, batches_key, noise_key;
  std::int64_t step;
};

// Called every few hundredths of a second during long work; may throw to end it.
using Pulse = void (*)();

// When and on what a network is checked: every so many steps, on the first `examples` of a stream.
struct Checks {
  Key key;
  Size every;
  Size examples;  // 0: laps end there, but nothing is looked at
  Size allowed;   // mistakes with which a check may still be a success
};

// What came of a stretch of steps.
struct Stretch {
  // One entry a lap. A lap ends at a check, or where the stretch does; means over its steps.
  std::vector<std::int64_t> ends;
  std::vector<double> loss, error;
  // The exact number at the last check, if it is allowed; -1 if no check had so few.
  Size mistakes = -1;
  double checking_seconds = 0;
  // The largest change of a hidden weight since recording began, one entry a record: of the inputs
  // in the support, and of the others (0 if there are none).
  std::vector<float> relevant, irrelevant;
};

class Metronome;

class Network {
 public:
  // weight is [width][inputs], bias and output are [width]. Where the output is a product, `output`
  // must be 1 and must not move.
  Network(const float* weight, const float* bias, const float* output, float output_bias,
          Size width, Size inputs, const Options& options);
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  Size width() const { return state_.width; }
  Size inputs() const { return state_.inputs; }
  Size batch_size() const { return state_.batch; }
  std::int64_t step() const { return static_cast<std::int64_t>(state_.step); }
  std::int64_t diverged_at() const { return state_.diverged_at; }
  const char* instruction_set() const { return kernel_.name; }
  // Means over the steps of the last advance; not a number if there were none.
  double loss() const { return loss_; }
  double error() const { return error_; }

  // Takes one step per factor; returns the steps done, fewer if it diverged or was stopped.
  Size advance(const float* factors, Size steps, Pulse pulse);

  // Takes one step per factor until one of the checks on the way is not certainly a failure, the
  // network diverges or is stopped, or the seconds are over.
  Stretch stretch(const float* factors, Size steps, const Checks& checks, Size record_every,
                  double seconds, Pulse pulse);
  // From now on weights can be compared with the present ones.
  void begin_recording();

  // wrong[i]: the sign of the output on example index[i] of stream `key` is not that of its label.
  void wrong(Key key, const std::uint32_t* index, Size count, bool noisy, bool* wrong, Pulse pulse);
  // Labels of those examples.
  void labels(Key key, const std::uint32_t* index, Size count, bool noisy, std::int8_t* labels);
  // Outputs on x, [count][inputs].
  void predict(const float* x, Size count, float* outputs, Pulse pulse);
  // Indices of the examples in the minibatch of a step, batch_size of them.
  void minibatch(std::int64_t step, std::uint32_t* index);
  // Copies the parameters out, in the constructor's layout; returns the output bias.
  float parameters(float* weight, float* bias, float* output);

  // stop() may be called from any thread, while another works: a running or later advance returns
  // after its present step, an evaluation throws Stopped, until resume().
  void stop() { __atomic_store_n(&stop_, true, __ATOMIC_RELAXED); }
  void resume() { __atomic_store_n(&stop_, false, __ATOMIC_RELAXED); }
  bool stopped() const { return __atomic_load_n(&stop_, __ATOMIC_RELAXED); }

 private:
  Examples make_examples(Size capacity, bool direct);
  void check_limits(std::int64_t last_step) const;
  void copy_in(const float* weight, const float* bias, const float* output);
  Size slice() const;
  Size count_mistakes(const Checks& checks, Metronome& metronome);
  void put_mistakes_first(Size seen);
  void record_movement(Stretch& found) const;

  const Kernel& kernel_;
  State state_{};
  Memory memory_;
  double loss_, error_;
  // The examples of the checks, in a ring: those to look at first stand at `front_`.
  std::vector<std::uint32_t> line_;
  std::vector<char> wrong_;
  Size front_ = 0;
  float* before_ = nullptr;  // the weights when recording began
  bool stop_ = false;
  std::atomic<bool> busy_ = false;
};

// Inputs of the examples index[0 ... count-1] of stream `key`: signs [count][inputs].
void signs(Key key, const std::uint32_t* index, Size count, Size inputs, std::int8_t* signs);

// Measured float32 multiply-add peak of one core for the instruction set in use, in GFLOP/s.
double fma_peak(double seconds, Pulse pulse);

}  // namespace elegans
