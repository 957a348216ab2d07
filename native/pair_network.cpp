#include "pair_network.hpp"

#include <cmath>
#include <limits>

#include "dispatch.hpp"
#include "guards.hpp"

namespace elegans {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr Size largest_order = 4096;

void check(Size width, Size order, const PairOptions& options) {
  require(width >= 1, "width must be at least 1: width=", width);
  require(order >= 1 && order <= largest_order, "order must be in 1 ... ", largest_order,
          ": order=", order);
  require(options.degree >= 1 && options.degree <= largest_degree,
          "degree must be in 1 ... 32: degree=", options.degree);
  require(options.batch_size >= 1 && options.batch_size <= largest_order * largest_order,
          "batch_size must be in 1 ... 2^24: batch_size=", options.batch_size);
  require(!options.population || options.batch_size == order * order,
          "batch_size of the population must be order^2=", order * order,
          ": batch_size=", options.batch_size);
  require(options.learning_rates.size() == 2, "learning_rates must be two: got ",
          options.learning_rates.size());
  require(options.decays.size() == 2, "decays must be two: got ", options.decays.size());
  for (std::size_t layer = 0; layer < 2; layer++) {
    require(std::isfinite(options.learning_rates[layer]), "learning_rates must be finite: got ",
            options.learning_rates[layer]);
    require(std::isfinite(options.decays[layer]), "decays must be finite: got ",
            options.decays[layer]);
  }
  require(options.penalty >= 0 && std::isfinite(options.penalty),
          "penalty must be at least 0: penalty=", options.penalty);
  require(options.penalty_norm > 0 && std::isfinite(options.penalty_norm),
          "penalty_norm must be positive: penalty_norm=", options.penalty_norm);
  require(options.penalty_exponent > 0 && std::isfinite(options.penalty_exponent),
          "penalty_exponent must be positive: penalty_exponent=", options.penalty_exponent);
  require(options.step >= 0, "step must not be negative: step=", options.step);
}

}  // namespace

PairNetwork::PairNetwork(const float* hidden, const float* output, const std::int32_t* table,
                         Size width, Size order, const PairOptions& options)
    : kernel_(kernel_in_use()), loss_(not_a_number), error_(not_a_number) {
  check(width, order, options);
  PairState& s = state_;
  s.order = order;
  s.width = width;
  s.batch = options.batch_size;
  s.blocks = round_up(width, pair_block) / pair_block;
  s.rows = 3 * order;
  s.population = options.population;
  s.activation = named<Activation>("activation", options.activation,
                                   {{"relu", Activation::relu}, {"power", Activation::power}});
  s.degree = options.degree;
  for (std::size_t layer = 0; layer < 2; layer++) {
    s.learning_rate[layer] = static_cast<float>(options.learning_rates[layer]);
    s.decay[layer] = static_cast<float>(options.decays[layer]);
  }
  s.decay_in_gradient = options.decay_in_gradient;
  s.penalty = static_cast<float>(options.penalty);
  s.penalty_norm = static_cast<float>(options.penalty_norm);
  s.penalty_exponent = static_cast<float>(options.penalty_exponent);
  s.sample_key = options.sample_key;
  s.step = static_cast<std::uint64_t>(options.step);
  s.diverged_at = -1;
  check_draws(options.step);

  s.parameter = memory_.allocate<float>(s.blocks * s.rows * pair_block);
  s.gradient = memory_.allocate<float>(s.blocks * s.rows * pair_block);
  s.strength = memory_.allocate<float>(s.blocks * pair_block);
  s.table = memory_.allocate<std::int32_t>(order * order);
  s.current = make_pairs(s.batch);
  s.test = make_pairs(pair_tile);
  s.fresh = true;
  s.across = memory_.allocate<float>(pair_group * pair_block * pair_tile);
  s.value = memory_.allocate<float>(pair_tile * pair_block);
  s.slope = memory_.allocate<float>(pair_tile * pair_block);
  s.output = memory_.allocate<float>(order * pair_tile);
  copy_table(table);
  each_parameter([&](float& inside, Size neuron, Size row) {
    inside = row < 2 * order ? hidden[neuron * 2 * order + row]
                             : output[(row - 2 * order) * width + neuron];
  });
}

// Pairs beyond `count`, up to the end of the last vector, are the first: they must be somewhere.
Pairs PairNetwork::make_pairs(Size count) {
  const Size capacity = round_up(count, pair_tile);
  const Pairs pairs{
      memory_.allocate<std::uint32_t>(capacity), memory_.allocate<std::int32_t>(capacity),
      memory_.allocate<std::int32_t>(capacity), memory_.allocate<std::int32_t>(capacity)};
  return pairs;
}

// Counters are 32 bits wide: beyond these limits draws would repeat.
void PairNetwork::check_draws(std::int64_t last_step) const {
  const std::int64_t limit = std::int64_t{1} << 32;
  require(last_step <= limit, "step must be at most 2^32: step=", last_step);
  if (state_.population) return;
  const std::int64_t examples = last_step * state_.batch;
  require(examples <= limit, "online training has 2^32 examples: steps*batch_size=", examples);
}

void PairNetwork::copy_table(const std::int32_t* table) {
  for (Size i = 0; i < state_.order * state_.order; i++) {
    require(table[i] >= 0 && table[i] < state_.order, "table must be in 0 ... order-1: ", table[i],
            " with order=", state_.order);
    state_.table[i] = table[i];
  }
}

template <class Function>
void PairNetwork::each_parameter(Function function) const {
  for (Size neuron = 0; neuron < state_.width; neuron++) {
    float* first = state_.parameter + neuron / pair_block * state_.rows * pair_block;
    for (Size row = 0; row < state_.rows; row++) {
      function(first[row * pair_block + neuron % pair_block], neuron, row);
    }
  }
}

Size PairNetwork::advance(const float* factors, Size steps, Pulse pulse) {
  const Busy busy(busy_);
  check_draws(step() + steps);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  double loss = 0;
  double error = 0;
  Size done = 0;
  // Steps that take some milliseconds; the results do not depend on how steps are sliced.
  const double work =
      static_cast<double>(state_.batch * state_.width) * static_cast<double>(state_.order);
  const Size slice = std::max(Size{1}, static_cast<Size>(1e7 / work));
  loss_ = error_ = not_a_number;
  while (done < steps) {
    const Size wanted = std::min(slice, steps - done);
    const Size got = kernel_.pair_advance(state_, factors + done, wanted, &stop_);
    loss += state_.loss_sum;
    error += state_.error_sum;
    done += got;
    if (done > 0) {
      loss_ = loss / static_cast<double>(done);
      error_ = error / static_cast<double>(done);
    }
    if (got < wanted) break;
    metronome.beat();
  }
  return done;
}

// Calls `function` with the place and the size of each tile, once its outputs are known.
template <class Function>
void PairNetwork::each_tile(const std::uint32_t* number, Size count, Pulse pulse,
                            Function function) {
  const Busy busy(busy_);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  const auto pairs = static_cast<std::uint32_t>(state_.order * state_.order);
  for (Size i = 0; i < count; i++) {
    require(number[i] < pairs, "pairs must be below order^2=", pairs, ": got ", number[i]);
  }
  for (Size from = 0; from < count; from += pair_tile) {
    if (stopped()) throw Stopped("the evaluation was stopped");
    const Size size = std::min(pair_tile, count - from);
    std::copy_n(number + from, size, state_.test.number);
    kernel_.pair_outputs(state_, size);
    function(from, size);
    metronome.beat();
  }
}

void PairNetwork::outputs(const std::uint32_t* number, Size count, float* outputs, Pulse pulse) {
  each_tile(number, count, pulse, [&](Size from, Size size) {
    for (Size p = 0; p < size; p++) {
      for (Size c = 0; c < state_.order; c++) {
        outputs[(from + p) * state_.order + c] = state_.output[c * pair_tile + p];
      }
    }
  });
}

void PairNetwork::wrong(const std::uint32_t* number, Size count, bool* wrong, Pulse pulse) {
  each_tile(number, count, pulse, [&](Size from, Size size) {
    for (Size p = 0; p < size; p++) {
      const Size label = state_.test.label[p];
      const float own = state_.output[label * pair_tile + p];
      bool above = true;  // all others; written so that what is not a number is wrong
      for (Size c = 0; c < state_.order; c++) {
        above = above && (c == label || own > state_.output[c * pair_tile + p]);
      }
      wrong[from + p] = !above;
    }
  });
}

void PairNetwork::minibatch(std::int64_t step, std::uint32_t* number) {
  const Busy busy(busy_);
  require(step >= 0, "step must not be negative: step=", step);
  check_draws(step + 1);
  kernel_.pair_minibatch(state_, static_cast<std::uint64_t>(step), state_.current.number);
  state_.fresh = true;
  std::copy_n(state_.current.number, state_.batch, number);
}

void PairNetwork::parameters(float* hidden, float* output) {
  const Busy busy(busy_);
  const Size order = state_.order;
  each_parameter([&](const float& inside, Size neuron, Size row) {
    (row < 2 * order ? hidden[neuron * 2 * order + row]
                     : output[(row - 2 * order) * state_.width + neuron]) = inside;
  });
}

}  // namespace elegans
