#include "network.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "checks.hpp"
#include "dispatch.hpp"
#include "guards.hpp"

namespace elegans {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

Loss loss_of(const std::string& name) {
  return named<Loss>("loss", name,
                     {{"hinge", Loss::hinge},
                      {"square", Loss::square},
                      {"logistic", Loss::logistic},
                      {"correlation", Loss::correlation}});
}

Activation activation_of(const std::string& name) {
  return named<Activation>("activation", name,
                           {{"relu", Activation::relu},
                            {"relu6", Activation::relu6},
                            {"power", Activation::power},
                            {"zigzag", Activation::zigzag},
                            {"triangle-wave", Activation::triangle_wave},
                            {"polynomial", Activation::polynomial},
                            {"sinusoid", Activation::sinusoid},
                            {"product", Activation::product}});
}

Order order_of(const std::string& name, std::int64_t sample_size) {
  require(name == "replacement" || name == "epochs", "order must be replacement or epochs: got '",
          name, "'");
  if (sample_size == 0) return Order::online;
  return name == "epochs" ? Order::epochs : Order::replacement;
}

void check(Size width, Size inputs, const Options& options) {
  require(width >= 1, "width must be at least 1: width=", width);
  require(inputs >= 1 && inputs <= 65536, "n must be in 1 ... 65536: n=", inputs);
  std::vector<Size> support = options.support;
  std::sort(support.begin(), support.end());
  for (std::size_t i = 0; i < support.size(); i++) {
    require(support[i] >= 0 && support[i] < inputs, "support must be in 0 ... n-1: ", support[i],
            " with n=", inputs);
    require(i == 0 || support[i] != support[i - 1], "support must be distinct: ", support[i],
            " twice");
  }
  require(options.label_sign == 1 || options.label_sign == -1,
          "label_sign must be -1 or 1: label_sign=", options.label_sign);
  require(options.mix >= 0 && options.mix <= 1, "mix must be in 0 ... 1: mix=", options.mix);
  require(options.noise >= 0 && options.noise <= 1,
          "noise must be in 0 ... 1: noise=", options.noise);
  require(options.sample_size >= 0 && options.sample_size <= (1 << 30),
          "sample_size must be in 0 ... 2^30: sample_size=", options.sample_size);
  require(options.batch_size >= 1 && options.batch_size <= 65536,
          "batch_size must be in 1 ... 65536: batch_size=", options.batch_size);
  require(options.learning_rates.size() == parameter_count, "learning_rates must be four: got ",
          options.learning_rates.size());
  require(options.decays.size() == parameter_count, "decays must be four: got ",
          options.decays.size());
  for (double rate : options.learning_rates) {
    require(std::isfinite(rate), "learning_rates must be finite: got ", rate);
  }
  for (double decay : options.decays) {
    require(std::isfinite(decay), "decays must be finite: got ", decay);
  }
  require(options.loss_scale > 0 && std::isfinite(options.loss_scale),
          "loss_scale must be positive: loss_scale=", options.loss_scale);
  require(options.step >= 0, "step must not be negative: step=", options.step);
}

void check_activation(Activation activation, Size width, const Options& options) {
  require(options.degree >= 1 && options.degree <= largest_degree,
          "degree must be in 1 ... 32: degree=", options.degree);
  require(options.scale > 0 && std::isfinite(options.scale),
          "scale must be positive: scale=", options.scale);
  if (activation == Activation::polynomial) {
    require(options.coefficients.size() == static_cast<std::size_t>(options.degree) + 1,
            "coefficients must be degree+1=", options.degree + 1, ": got ",
            options.coefficients.size());
  }
  if (activation == Activation::product) {
    require(width <= largest_product, "a product must have at most 64 factors: width=", width);
  }
}

}  // namespace

Examples Network::make_examples(Size capacity, bool direct) {
  const State& s = state_;
  Examples examples{};
  examples.capacity = capacity;
  examples.index = memory_.allocate<std::uint32_t>(capacity);
  examples.bits = memory_.allocate<std::uint32_t>(s.sign_words * capacity);
  examples.label = memory_.allocate<float>(capacity);
  if (direct) {
    examples.sign = memory_.allocate<float>(capacity * s.sign_words * 32);
  } else {
    examples.offset = memory_.allocate<std::uint16_t>(s.groups * capacity);
  }
  examples.output = memory_.allocate<float>(capacity);
  examples.partial = memory_.allocate<float>(capacity * s.lanes);
  return examples;
}

Network::Network(const float* weight, const float* bias, const float* output, float output_bias,
                 Size width, Size inputs, const Options& options)
    : kernel_(kernel_in_use()), loss_(not_a_number), error_(not_a_number) {
  check(width, inputs, options);
  State& s = state_;
  s.inputs = inputs;
  s.width = width;
  s.batch = options.batch_size;
  s.lanes = kernel_.lanes;
  s.vectors = (width + s.lanes - 1) / s.lanes;
  s.groups = (inputs + 3) / 4;
  s.rows = 4 * s.groups;
  s.sign_words = 2 * ((inputs + 63) / 64);
  s.mask_words = (s.batch + 31) / 32;
  s.output_bias = output_bias;
  s.activation = activation_of(options.activation);
  check_activation(s.activation, width, options);
  s.degree = options.degree;
  s.scale = static_cast<float>(options.scale);
  for (std::size_t i = 0; i < options.coefficients.size(); i++) {
    s.coefficient[i] = static_cast<float>(options.coefficients[i]);
    if (i > 0) {
      s.slope_coefficient[i - 1] =
          static_cast<float>(static_cast<double>(i) * options.coefficients[i]);
    }
  }
  s.loss = loss_of(options.loss);
  s.loss_scale = static_cast<float>(options.loss_scale);
  s.order = order_of(options.order, options.sample_size);
  for (std::size_t p = 0; p < parameter_count; p++) {
    s.learning_rate[p] = static_cast<float>(options.learning_rates[p]);
    s.decay[p] = static_cast<float>(options.decays[p]);
  }
  s.decay_in_gradient = options.decay_in_gradient;
  s.sample_key = options.sample_key;
  s.batches_key = options.batches_key;
  s.noise_key = options.noise_key;
  s.sample_size = static_cast<std::uint64_t>(options.sample_size);
  s.noise = static_cast<float>(options.noise);
  s.step = static_cast<std::uint64_t>(options.step);
  s.diverged_at = -1;
  check_limits(options.step);

  s.weight = memory_.allocate<float>(s.vectors * s.rows * s.lanes);
  s.bias = memory_.allocate<float>(s.vectors * s.lanes);
  s.output = memory_.allocate<float>(s.vectors * s.lanes);
  copy_in(weight, bias, output);

  s.support = memory_.allocate<std::uint32_t>(s.sign_words);
  s.label_flip = options.label_sign < 0;
  s.mix = static_cast<float>(options.mix);
  for (Size j : options.support) s.support[j / 32] |= 1u << (j % 32);

  const Size capacity = 32 * s.mask_words;
  const bool direct = s.batch < direct_batch;
  s.current = make_examples(capacity, direct);
  s.next = make_examples(capacity, direct);
  s.test = make_examples(example_block, false);
  const bool relu = s.activation == Activation::relu;
  if (relu) {
    s.mask = memory_.allocate<std::uint32_t>(s.vectors * s.mask_words * s.lanes);
  } else {
    s.sums = memory_.allocate<float>(s.vectors * capacity * s.lanes);
  }
  s.active = memory_.allocate<std::uint32_t>(s.mask_words);
  s.label_bits = memory_.allocate<std::uint32_t>(s.mask_words);
  s.by_input = memory_.allocate<std::uint32_t>(s.mask_words * s.sign_words * 32);
  if (!relu || (s.loss != Loss::hinge && s.loss != Loss::correlation)) {
    s.by_input_offset = memory_.allocate<std::uint16_t>(capacity / 4 * s.sign_words * 32);
    s.gradient = memory_.allocate<float>(s.rows * s.lanes);
  }
  s.slope = memory_.allocate<float>(capacity);
  s.table = memory_.allocate<float>(table_bytes / static_cast<Size>(sizeof(float)));
  s.hidden = memory_.allocate<float>(example_block * s.lanes);
  if (s.order == Order::epochs) {
    s.epoch_capacity = std::max(epoch_block, capacity);
    s.epoch_index = memory_.allocate<std::uint32_t>(s.epoch_capacity);
    s.epoch_k0 = memory_.allocate<std::uint32_t>(s.epoch_capacity);
    s.epoch_k1 = memory_.allocate<std::uint32_t>(s.epoch_capacity);
    s.epoch_value = memory_.allocate<std::uint32_t>(s.epoch_capacity);
    s.epoch_slot = memory_.allocate<std::uint32_t>(s.epoch_capacity);
  }
}

void Network::copy_in(const float* weight, const float* bias, const float* output) {
  State& s = state_;
  for (Size i = 0; i < s.width; i++) {
    const Size vector = i / s.lanes;
    const Size lane = i % s.lanes;
    for (Size j = 0; j < s.inputs; j++) {
      s.weight[(vector * s.rows + j) * s.lanes + lane] = weight[i * s.inputs + j];
    }
    s.bias[i] = bias[i];
    s.output[i] = output[i];
  }
}

void Network::begin_recording() {
  const Busy busy(busy_);
  const Size count = state_.vectors * state_.rows * state_.lanes;
  if (!before_) before_ = memory_.allocate<float>(count);
  std::copy_n(state_.weight, count, before_);
}

float Network::parameters(float* weight, float* bias, float* output) {
  const Busy busy(busy_);
  const State& s = state_;
  for (Size i = 0; i < s.width; i++) {
    const Size vector = i / s.lanes;
    const Size lane = i % s.lanes;
    for (Size j = 0; j < s.inputs; j++) {
      weight[i * s.inputs + j] = s.weight[(vector * s.rows + j) * s.lanes + lane];
    }
    bias[i] = s.bias[i];
    output[i] = s.output[i];
  }
  return s.output_bias;
}

// Counters are 32 bits wide: beyond these limits draws would repeat.
void Network::check_limits(std::int64_t last_step) const {
  const std::int64_t limit = std::int64_t{1} << 32;
  require(last_step <= limit, "step must be at most 2^32: step=", last_step);
  if (state_.order == Order::replacement) return;
  const std::int64_t examples = last_step * state_.batch;
  if (state_.order == Order::online) {
    require(examples <= limit, "online training has 2^32 examples: steps*batch_size=", examples);
  } else {
    const std::int64_t epochs = examples / static_cast<std::int64_t>(state_.sample_size);
    require(epochs < limit, "epochs must be fewer than 2^32: epochs=", epochs);
  }
}

// Steps that take some milliseconds. The results do not depend on how steps are sliced.
Size Network::slice() const {
  const double work = static_cast<double>(state_.width) * static_cast<double>(state_.inputs) *
                          static_cast<double>(state_.batch) +
                      2e4;
  return std::max(Size{1}, static_cast<Size>(4e8 / work));
}

Size Network::advance(const float* factors, Size steps, Pulse pulse) {
  const Busy busy(busy_);
  check_limits(step() + steps);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  double loss = 0;
  double error = 0;
  Size done = 0;
  auto close = [&] {
    loss_ = done > 0 ? loss / static_cast<double>(done) : not_a_number;
    error_ = done > 0 ? error / static_cast<double>(done) : not_a_number;
  };
  while (done < steps) {
    const Size wanted = std::min(slice(), steps - done);
    const Size got = kernel_.advance(state_, factors + done, wanted, &stop_);
    loss += state_.loss_sum;
    error += state_.error_sum;
    done += got;
    close();
    if (got < wanted) break;
    metronome.beat();
  }
  close();
  return done;
}

void Network::wrong(Key key, const std::uint32_t* index, Size count, bool noisy, bool* wrong,
                    Pulse pulse) {
  const Busy busy(busy_);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  const Examples& test = state_.test;
  for (Size from = 0; from < count; from += example_block) {
    if (stopped()) throw Stopped("the evaluation was stopped");
    const Size block = std::min(example_block, count - from);
    std::copy_n(index + from, block, test.index);
    kernel_.evaluate(state_, key, noisy, block);
    // Written so that an output that is not a number is wrong.
    for (Size q = 0; q < block; q++) wrong[from + q] = !(test.output[q] * test.label[q] > 0.0f);
    metronome.beat();
  }
}

void Network::labels(Key key, const std::uint32_t* index, Size count, bool noisy,
                     std::int8_t* labels) {
  const Busy busy(busy_);
  const Examples& test = state_.test;
  for (Size from = 0; from < count; from += example_block) {
    const Size block = std::min(example_block, count - from);
    std::copy_n(index + from, block, test.index);
    kernel_.draw(state_, key, noisy, state_.test, block);
    for (Size q = 0; q < block; q++) labels[from + q] = test.label[q] < 0.0f ? -1 : 1;
  }
}

void Network::predict(const float* x, Size count, float* outputs, Pulse pulse) {
  const Busy busy(busy_);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  for (Size from = 0; from < count; from += example_block) {
    if (stopped()) throw Stopped("the evaluation was stopped");
    const Size block = std::min(example_block, count - from);
    kernel_.predict(state_, x + from * state_.inputs, block);
    std::copy_n(state_.test.output, block, outputs + from);
    metronome.beat();
  }
}

void Network::minibatch(std::int64_t step, std::uint32_t* index) {
  const Busy busy(busy_);
  require(step >= 0, "step must not be negative: step=", step);
  check_limits(step + 1);
  kernel_.minibatch(state_, static_cast<std::uint64_t>(step), state_.next.index);
  std::copy_n(state_.next.index, state_.batch, index);
}

void signs(Key key, const std::uint32_t* index, Size count, Size inputs, std::int8_t* signs) {
  const auto size = static_cast<std::size_t>(count);
  std::vector<std::uint32_t> block(size), w0(size), w1(size);
  for (Size first = 0; first < inputs; first += 64) {
    std::fill(block.begin(), block.end(), static_cast<std::uint32_t>(first / 64));
    kernel_in_use().words(key, index, block.data(), count, w0.data(), w1.data());
    const Size last = std::min(inputs, first + 64);
    for (Size i = 0; i < count; i++) {
      const std::uint64_t bits =
          w0[static_cast<std::size_t>(i)] | std::uint64_t{w1[static_cast<std::size_t>(i)]} << 32;
      for (Size j = first; j < last; j++) {
        signs[i * inputs + j] = (bits >> (j - first)) & 1 ? -1 : 1;
      }
    }
  }
}

double fma_peak(double seconds, Pulse pulse) {
  using Clock = std::chrono::steady_clock;
  require(seconds > 0 && std::isfinite(seconds), "seconds must be positive: seconds=", seconds);
  const Kernel& kernel = kernel_in_use();
  Metronome metronome(pulse);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  double best = 0;
  float sink = 0;
  // The best of many short runs: what the core does when nobody disturbs it.
  do {
    const auto start = Clock::now();
    const double operations = kernel.multiply_add(200000, &sink);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    best = std::max(best, operations / elapsed.count() * 1e-9);
    metronome.beat();
  } while (Clock::now() < end);
  return best;
}

}  // namespace elegans
