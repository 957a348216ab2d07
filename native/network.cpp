// One two-layer network on sign inputs in training.
//
// It continues from check to check by itself as long as every check fails. A check is exact, with
// no more work than needed to be certain: it begins with the examples that were wrong at the last
// check, continues with those not evaluated for longest, and ends with the first mistake beyond the
// allowed number.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include <nanobind/stl/optional.h>

#include "host.hpp"

namespace elegans {
namespace {

using Clock = std::chrono::steady_clock;

// Examples of a check beyond the fewest that could settle it, since a few of the last check's
// mistakes are now corrected.
constexpr Size margin = 32;
constexpr Size largest_block = Size{1} << 20;  // numbers at once
constexpr Size most_places = 12;               // of a table of labels
constexpr std::int64_t largest_sample = std::int64_t{1} << 30;
constexpr std::int64_t largest_drawn = std::int64_t{1} << 30;
constexpr std::int64_t largest_step = std::int64_t{1} << 32;  // counters are 32 bits wide

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// The kinds of activations, without the product, which is a network's and not a neuron's, and the
// tabulated one, which is any.
std::vector<std::string> activations() {
  std::vector<std::string> kinds;
  for (const auto& [kind, activation] : activation_kinds) {
    if (activation < Activation::tabulated) kinds.emplace_back(kind);
  }
  return kinds;
}

Order order_of(const std::string& name, std::int64_t sample_size) {
  require(sample_size >= 0 && sample_size <= largest_sample,
          "sample_size must be in 0 ... 2^30: sample_size=", sample_size);
  const Order order =
      named<Order>("order", name, {{"replacement", Order::replacement}, {"epochs", Order::epochs}});
  return sample_size == 0 ? Order::online : order;
}

void require_probability(const char* name, double value) {
  require(value >= 0 && value <= 1, name, " must be in 0 ... 1: ", name, "=", value);
}

// Non-negative numbers are ordered like their bits; NaN comes last.
std::int32_t bits_of(float x) { return std::bit_cast<std::int32_t>(x); }

void reserve_epochs(State& s, Memory& memory, Size capacity) {
  s.epoch_capacity = std::max(epoch_block, capacity);
  for (std::uint32_t** array :
       {&s.epoch_index, &s.epoch_k0, &s.epoch_k1, &s.epoch_value, &s.epoch_slot}) {
    *array = memory.allocate<std::uint32_t>(s.epoch_capacity);
  }
}

// An activation, and its numbers as far as it has any.
struct Neurons {
  std::string activation;
  int degree;
  double scale;
  std::vector<double> coefficients;
  std::optional<Matrix> table;
};

void set_activation(State& s, Memory& memory, const Neurons& neurons) {
  const auto activation = named<Activation>("activation", neurons.activation, activation_kinds);
  require_between("degree", neurons.degree, 1, largest_degree);
  if (activation != Activation::leaky_relu || neurons.scale != 0) {
    require_positive("scale", neurons.scale);
  }
  if (activation == Activation::polynomial) {
    const std::vector<double>& coefficients = neurons.coefficients;
    const auto wanted = static_cast<std::size_t>(neurons.degree) + 1;
    require(coefficients.size() == wanted, "coefficients must be degree+1=", wanted, ": got ",
            coefficients.size());
    for (std::size_t i = 0; i < wanted; i++) {
      s.coefficient[i] = static_cast<float>(coefficients[i]);
      if (i > 0) {
        s.derivative_coefficient[i - 1] =
            static_cast<float>(static_cast<double>(i) * coefficients[i]);
      }
    }
  }
  if (activation == Activation::tabulated) {
    require(neurons.table.has_value(), "a tabulated activation must have a table");
    require(rows_of(*neurons.table) == table_rows && neurons.table->shape(1) == table_pieces,
            "table must be (", table_rows, ", ", table_pieces, "): got (", neurons.table->shape(0),
            ", ", neurons.table->shape(1), ")");
    s.pieces = memory.allocate<float>(table_rows * table_pieces);
    std::copy_n(neurons.table->data(), table_rows * table_pieces, s.pieces);
  }
  s.activation = activation;
  s.degree = neurons.degree;
  s.scale = static_cast<float>(neurons.scale);
}

// Counters are 32 bits wide: beyond these limits draws would repeat.
void check_draws(const State& state, std::int64_t last_step) {
  require(last_step <= largest_step, "step must be at most 2^32: step=", last_step);
  if (state.order == Order::replacement) return;
  const std::int64_t examples = last_step * state.batch;
  if (state.order == Order::online) {
    require(examples <= largest_step,
            "online training has 2^32 examples: steps*batch_size=", examples);
  } else {
    const std::int64_t epochs = examples / static_cast<std::int64_t>(state.sample_size);
    require(epochs < largest_step, "epochs must be fewer than 2^32: epochs=", epochs);
  }
}

// Sums of minibatch loss and error over some steps.
struct Sums {
  Size steps = 0;
  double loss = 0, error = 0;
};

// The steps of an advance from check to check.
struct Chunk {
  // One entry per interval, which ends at a check or at the end of the chunk; means over its steps.
  std::vector<std::int64_t> ends;
  std::vector<double> loss, error;
  // The exact number at the last check, if it is allowed; -1 if no check had so few.
  Size mistakes = -1;
  // One entry per point of a curve; means over the steps since the last point.
  std::vector<double> point_loss, point_error;
  std::vector<Size> point_mistakes;
  Sums since;
  double checking_seconds = 0;
  // The largest change of a hidden weight since recording began, one entry per record: for inputs
  // in the support, and for the others (0 if there are none).
  std::vector<float> relevant, irrelevant;
};

class Network : public Host<State> {
 public:
  Network(const Matrix& weight, const Vector& bias, const Vector& output_weight, float output_bias,
          const std::vector<Size>& support, int label_sign, const std::optional<Vector>& values,
          double mix, double noise, std::int64_t sample_size, const std::string& order,
          Size batch_size, const std::string& activation, int degree, double scale,
          const std::vector<double>& coefficients, const std::optional<Matrix>& table,
          const NamedLoss& loss, const std::vector<double>& learning_rates,
          const std::vector<double>& decays, bool decay_in_gradient, double clip,
          const std::vector<bool>& present, const std::string& optimiser, double beta1,
          double beta2, double epsilon, const std::optional<Vector>& cumulative,
          const std::optional<Array<std::uint32_t, 2>>& supports, const KeyPair& sample_key,
          const KeyPair& batches_key, const KeyPair& noise_key, std::int64_t step) {
    State& s = state_;
    s.width = rows_of(weight);
    s.controls = cumulative ? rows_of(*cumulative) : 0;
    s.inputs = static_cast<Size>(weight.shape(1)) - s.controls;
    require(s.width >= 1, "width must be at least 1: width=", s.width);
    require_between("n", s.inputs, 1, 65536);
    require_length("bias", bias.shape(0), "width", s.width);
    require_length("output_weight", output_weight.shape(0), "width", s.width);
    require_between("batch_size", batch_size, 1, 65536);
    s.batch = batch_size;
    s.vectors = (s.width + s.lanes - 1) / s.lanes;
    s.groups = (s.inputs + 3) / 4;
    s.rows = 4 * s.groups + s.controls;
    s.columns = s.controls ? s.rows : s.inputs;
    s.sign_words = 2 * ((s.inputs + 63) / 64);
    s.mask_words = (s.batch + 31) / 32;
    s.loss = loss_of(loss);
    set_activation(s, memory_, {activation, degree, scale, coefficients, table});
    require(s.activation != Activation::product || s.width <= largest_product,
            "a product must have at most 64 factors: width=", s.width);
    set_rates(learning_rates, decays);
    s.decay_in_gradient = decay_in_gradient;
    set_optimiser(s, optimiser, beta1, beta2, epsilon);
    require(clip > 0, "clip must be positive: clip=", clip);
    s.clip = clip;
    require(present.size() == parameter_count, "present must have length 4: got ", present.size());
    std::copy(present.begin(), present.end(), s.present);
    set_labels(support, label_sign, mix, noise);
    set_values(values);
    set_controls(cumulative, supports);
    s.order = order_of(order, sample_size);
    s.sample_size = static_cast<std::uint64_t>(sample_size);
    s.sample_key = key_of(sample_key);
    s.batches_key = key_of(batches_key);
    s.noise_key = key_of(noise_key);
    require(step >= 0, "step must not be negative: step=", step);
    check_limits(step);
    s.step = static_cast<std::uint64_t>(step);
    reserve();
    s.output_bias = output_bias;
    each_weight([&](float& own, Size place) { own = weight.data()[place]; });
    std::copy_n(bias.data(), s.width, s.bias);
    std::copy_n(output_weight.data(), s.width, s.output);
  }

  Size advance(const Vector& factors) {
    check_limits(step() + rows_of(factors));
    return take(rows_of(factors), slice(), [&](Size done, Size count) {
      return kernel_.advance(state_, factors.data() + done, count);
    });
  }

  Chunk advance_checked(const Vector& factors, const KeyPair& key, Size every, Size examples,
                        Size allowed, Size record_every, const std::vector<Size>& points,
                        Size point_examples, double seconds) {
    require(every >= 1, "every must be at least 1: every=", every);
    require(examples >= 0 && examples <= (Size{1} << 31),
            "examples must be in 0 ... 2^31: examples=", examples);
    require(allowed >= 0, "allowed must not be negative: allowed=", allowed);
    allowed = std::min(allowed, examples);  // as many as there can be
    require(record_every >= 0, "record_every must not be negative: record_every=", record_every);
    require(record_every == 0 || before_,
            "begin_recording must come before a record: record_every=", record_every);
    require_between("point_examples", point_examples, 0, example_block);
    for (std::size_t i = 0; i < points.size(); i++) {
      require(points[i] > (i > 0 ? points[i - 1] : step()),
              "points must be ascending and after step=", step(), ": got ", points[i]);
    }
    const Size steps = rows_of(factors);
    check_limits(step() + steps);
    const Busy busy(busy_);
    Work work;
    auto point = points.begin();
    const Clock::time_point begun = Clock::now();
    Chunk found;
    double loss = 0, error = 0;
    Size interval = 0;
    const auto end_interval = [&] {
      if (interval == 0) return;
      found.ends.push_back(step());
      found.loss.push_back(loss / static_cast<double>(interval));
      found.error.push_back(error / static_cast<double>(interval));
      loss = error = 0;
      interval = 0;
    };
    for (Size done = 0; done < steps && state_.diverged_at < 0;) {
      const Size now = step();
      Size wanted = std::min({slice(), steps - done, every - now % every});
      if (record_every > 0) wanted = std::min(wanted, record_every - now % record_every);
      if (point != points.end()) wanted = std::min(wanted, *point - now);
      state_.loss_sum = state_.error_sum = 0;
      const Size got = kernel_.advance(state_, factors.data() + done, wanted);
      loss += state_.loss_sum;
      error += state_.error_sum;
      interval += got;
      done += got;
      since_.steps += got;
      since_.loss += state_.loss_sum;
      since_.error += state_.error_sum;
      if (got < wanted) break;
      if (record_every > 0 && step() % record_every == 0) record_movement(found);
      if (point != points.end() && step() == *point) {
        point++;
        const Clock::time_point checked = Clock::now();
        found.point_loss.push_back(since_.loss / static_cast<double>(since_.steps));
        found.point_error.push_back(since_.error / static_cast<double>(since_.steps));
        found.point_mistakes.push_back(first_mistakes(key_of(key), point_examples));
        found.checking_seconds += seconds_since(checked);
        since_ = {};
      }
      if (step() % every == 0) {
        end_interval();
        if (examples > 0) {
          const Clock::time_point checked = Clock::now();
          const Size mistakes = count_mistakes(key_of(key), examples, allowed, work);
          found.checking_seconds += seconds_since(checked);
          if (mistakes <= allowed) {
            found.mistakes = mistakes;
            break;
          }
        }
      }
      work.beat();
      if (seconds_since(begun) > seconds) break;
    }
    end_interval();
    found.since = since_;
    return found;
  }

  void begin_recording() {
    const Busy busy(busy_);
    const Size count = state_.vectors * state_.rows * state_.lanes;
    if (!before_) before_ = memory_.allocate<float>(count);
    std::copy_n(state_.weight, count, before_);
  }

  auto wrong(const KeyPair& key, const Indices& index, bool noisy) {
    Result<bool> result(index.shape(0));
    each_block(rows_of(index), example_block, [&](Size first, Size count) {
      std::copy_n(index.data() + first, count, state_.test.index);
      kernel_.evaluate(state_, key_of(key), noisy, count);
      for (Size q = 0; q < count; q++) result.get()[first + q] = is_wrong(q);
    });
    return result.array();
  }

  auto predict(const Matrix& x) {
    const Size inputs = state_.controls + state_.inputs;
    require(static_cast<Size>(x.shape(1)) == inputs, "x must have n=", inputs, " columns: got ",
            x.shape(1));
    Result<float> result(x.shape(0));
    std::vector<float> by_row;  // in the order of the rows, where this is another one
    if (state_.controls) by_row.resize(static_cast<std::size_t>(example_block * state_.rows));
    each_block(rows_of(x), example_block, [&](Size first, Size count) {
      const float* block = x.data() + first * inputs;
      for (Size i = 0; state_.controls && i < count; i++) {
        for (Size j = 0; j < inputs; j++) {
          by_row[static_cast<std::size_t>(i * state_.rows + row_of(j))] = block[i * inputs + j];
        }
      }
      kernel_.predict(state_, state_.controls ? by_row.data() : block, count);
      std::copy_n(state_.test.output, count, result.get() + first);
    });
    return result.array();
  }

  auto parameters() {
    const Busy busy(busy_);
    Result<float> weight(state_.width, state_.controls + state_.inputs), bias(state_.width),
        output(state_.width);
    each_weight([&](const float& own, Size place) { weight.get()[place] = own; });
    std::copy_n(state_.bias, state_.width, bias.get());
    std::copy_n(state_.output, state_.width, output.get());
    return std::make_tuple(weight.array(), bias.array(), output.array(), state_.output_bias);
  }

 private:
  void set_rates(const std::vector<double>& learning_rates, const std::vector<double>& decays) {
    require(learning_rates.size() == parameter_count, "learning_rates must have length 4: got ",
            learning_rates.size());
    require(decays.size() == parameter_count, "decays must have length 4: got ", decays.size());
    require_finite("learning_rates", learning_rates);
    require_finite("decays", decays);
    for (std::size_t p = 0; p < parameter_count; p++) {
      state_.learning_rate[p] = static_cast<float>(learning_rates[p]);
      state_.decay[p] = static_cast<float>(decays[p]);
    }
  }

  void set_labels(std::vector<Size> support, int label_sign, double mix, double noise) {
    State& s = state_;
    std::sort(support.begin(), support.end());
    for (std::size_t i = 0; i < support.size(); i++) {
      require(support[i] >= 0 && support[i] < s.inputs,
              "support must be in 0 ... n-1: ", support[i], " with n=", s.inputs);
      require(i == 0 || support[i] != support[i - 1], "support must be distinct: ", support[i],
              " twice");
    }
    require(label_sign == 1 || label_sign == -1,
            "label_sign must be -1 or 1: label_sign=", label_sign);
    require_probability("mix", mix);
    require_probability("noise", noise);
    s.support = memory_.allocate<std::uint32_t>(s.sign_words);
    for (const Size j : support) s.support[j / 32] |= 1u << (j % 32);
    s.label_flip = label_sign < 0;
    s.mix = static_cast<float>(mix);
    s.noise = static_cast<float>(noise);
  }

  // Labels by a table, after the support is set.
  void set_values(const std::optional<Vector>& values) {
    State& s = state_;
    if (!values) return;
    for (Size j = 0; j < s.inputs; j++) s.places += (s.support[j / 32] >> (j % 32)) & 1u;
    require_between("places of values", s.places, 1, most_places);
    require_length("values", values->shape(0), "2^places", Size{1} << s.places);
    require(!s.label_flip && s.noise == 0.0f,
            "labels of a table must have no label_sign and no noise: noise=", s.noise);
    require(s.loss.kind == LossKind::square || s.loss.kind == LossKind::correlation,
            "labels of a table must have the square or the correlation loss");
    s.values = memory_.allocate<float>(rows_of(*values));
    for (Size i = 0; i < rows_of(*values); i++) {
      require(std::isfinite(values->data()[i]), "values must be finite: ", values->data()[i]);
      s.values[i] = values->data()[i];
    }
    s.place = memory_.allocate<std::uint32_t>(s.places);
    for (Size j = 0, i = 0; j < s.inputs; j++) {
      if ((s.support[j / 32] >> (j % 32)) & 1u) s.place[i++] = static_cast<std::uint32_t>(j);
    }
  }

  void set_controls(const std::optional<Vector>& cumulative,
                    const std::optional<Array<std::uint32_t, 2>>& supports) {
    State& s = state_;
    require(cumulative.has_value() == supports.has_value(),
            "cumulative and supports must be given together");
    if (!cumulative) return;
    require_between("controls", s.controls, 1, 65536);
    require_length("supports", supports->shape(0), "controls", s.controls);
    s.cumulative = memory_.allocate<float>(s.controls);
    float before = 0;
    for (Size i = 0; i < s.controls; i++) {
      const float value = cumulative->data()[i];
      require(value >= before && value <= 1, "cumulative must not decrease in 0 ... 1: ", value,
              " after ", before);
      s.cumulative[i] = before = value;
    }
    require(before == 1, "cumulative must end with 1: got ", before);
    s.support_size = static_cast<Size>(supports->shape(1));
    s.supports = memory_.allocate<std::uint32_t>(s.controls * s.support_size);
    for (Size i = 0; i < s.controls * s.support_size; i++) {
      const std::uint32_t place = supports->data()[i];
      require(place < s.inputs, "supports must be in 0 ... n-1: ", place, " with n=", s.inputs);
      s.supports[i] = place;
    }
  }

  void reserve() {
    State& s = state_;
    s.size = s.vectors * (s.rows + 2) * s.lanes;
    s.weight = memory_.allocate<float>(s.size);
    s.bias = s.weight + s.vectors * s.rows * s.lanes;
    s.output = s.bias + s.vectors * s.lanes;
    if (s.keeps) {
      s.first = memory_.allocate<float>(s.size + s.lanes);
      if (s.optimiser == Optimiser::adam) s.second = memory_.allocate<float>(s.size + s.lanes);
    }
    if (std::isfinite(s.clip)) s.collected = memory_.allocate<float>(s.size);
    const Size capacity = 32 * s.mask_words;
    const bool direct = s.batch < direct_batch && !s.controls;
    s.current = make_examples(capacity, direct);
    s.next = make_examples(capacity, direct);
    s.test = make_examples(example_block, false);
    const bool relu = s.activation == Activation::relu;
    if (relu) {
      s.mask = memory_.allocate<std::uint32_t>(s.vectors * s.mask_words * s.lanes);
    } else {
      s.kept = memory_.allocate<float>(s.vectors * 2 * capacity * s.lanes);
    }
    s.active = memory_.allocate<std::uint32_t>(s.mask_words);
    s.label_bits = memory_.allocate<std::uint32_t>(s.mask_words);
    s.by_input = memory_.allocate<std::uint32_t>(s.mask_words * s.sign_words * 32);
    if (!relu || s.controls || s.values ||
        (s.loss.kind != LossKind::hinge && s.loss.kind != LossKind::correlation)) {
      s.by_input_offset = memory_.allocate<std::uint16_t>(capacity / 4 * s.sign_words * 32);
      s.gradient = memory_.allocate<float>(s.rows * s.lanes);
    }
    s.grad_output = memory_.allocate<float>(capacity);
    s.table = memory_.allocate<float>(table_bytes / static_cast<Size>(sizeof(float)));
    s.hidden = memory_.allocate<float>(example_block * s.lanes);
    if (s.order == Order::epochs) reserve_epochs(s, memory_, capacity);
  }

  Examples make_examples(Size capacity, bool direct) {
    const State& s = state_;
    Examples examples{};
    examples.capacity = capacity;
    examples.index = memory_.allocate<std::uint32_t>(capacity);
    examples.bits = memory_.allocate<std::uint32_t>(s.sign_words * capacity);
    examples.label = memory_.allocate<float>(capacity);
    examples.control = memory_.allocate<std::uint32_t>(capacity);
    if (direct) {
      examples.sign = memory_.allocate<float>(capacity * s.sign_words * 32);
    } else {
      examples.offset = memory_.allocate<std::uint16_t>(s.groups * capacity);
    }
    examples.output = memory_.allocate<float>(capacity);
    examples.partial = memory_.allocate<float>(capacity * s.lanes);
    return examples;
  }

  // The row of an input: control inputs come first among inputs, and last among rows.
  Size row_of(Size input) const {
    return input < state_.controls ? 4 * state_.groups + input : input - state_.controls;
  }

  // Calls `function` with each hidden weight, and its index in [width][controls + inputs].
  template <class Function>
  void each_weight(Function function) {
    const State& s = state_;
    const Size inputs = s.controls + s.inputs;
    for (Size i = 0; i < s.width; i++) {
      for (Size j = 0; j < inputs; j++) {
        const Size row = i / s.lanes * s.rows + row_of(j);
        function(s.weight[row * s.lanes + i % s.lanes], i * inputs + j);
      }
    }
  }

  void check_limits(std::int64_t last_step) const { check_draws(state_, last_step); }

  // Steps that take some milliseconds. The results do not depend on how steps are sliced.
  Size slice() const {
    const double work = static_cast<double>(state_.width) * static_cast<double>(state_.inputs) *
                            static_cast<double>(state_.batch) +
                        2e4;
    return std::max(Size{1}, static_cast<Size>(4e8 / work));
  }

  // Written so that an output that is not a number is wrong.
  bool is_wrong(Size q) const {
    const float output = state_.test.output[q], label = state_.test.label[q];
    return state_.values ? !(std::abs(output - label) <= 0.5f) : !(output * label > 0.0f);
  }

  // Among the first examples of a stream, at most example_block.
  Size first_mistakes(Key key, Size examples) {
    std::iota(state_.test.index, state_.test.index + examples, 0u);
    kernel_.evaluate(state_, key, false, examples);
    Size mistakes = 0;
    for (Size q = 0; q < examples; q++) mistakes += is_wrong(q);
    return mistakes;
  }

  // Returns the exact number if it is allowed, else some number that is not.
  Size count_mistakes(Key key, Size examples, Size allowed, Work& work) {
    if (static_cast<Size>(line_.size()) != examples) {
      line_.resize(static_cast<std::size_t>(examples));
      wrong_.resize(line_.size());
      std::iota(line_.begin(), line_.end(), 0u);
      front_ = 0;
    }
    Size seen = 0;
    Size mistakes = 0;
    for (Size block = allowed + 1 + margin; seen < examples && mistakes <= allowed;
         block = 2 * std::max(block, allowed + 1 - mistakes)) {
      block = std::min({block, example_block, examples - seen});
      for (Size q = 0; q < block; q++) state_.test.index[q] = in_line(seen + q);
      kernel_.evaluate(state_, key, false, block);
      for (Size q = 0; q < block; q++) {
        wrong_[static_cast<std::size_t>(seen + q)] = is_wrong(q);
        mistakes += is_wrong(q);
      }
      seen += block;
      work.beat();
    }
    put_mistakes_first(seen);
    return mistakes;
  }

  std::uint32_t& in_line(Size offset) {
    const Size size = static_cast<Size>(line_.size()), place = front_ + offset;
    return line_[static_cast<std::size_t>(place < size ? place : place - size)];
  }

  // Among the evaluated examples, mistakes go to the front of the queue and the others to its end,
  // which in a ring is just before the front.
  void put_mistakes_first(Size seen) {
    std::vector<std::uint32_t> mistakes;
    Size right = 0;
    for (Size i = 0; i < seen; i++) {
      if (wrong_[static_cast<std::size_t>(i)]) {
        mistakes.push_back(in_line(i));
      } else {
        in_line(right++) = in_line(i);
      }
    }
    for (std::size_t i = 0; i < mistakes.size(); i++) {
      in_line(right + static_cast<Size>(i)) = mistakes[i];
    }
    front_ = (front_ + right) % static_cast<Size>(line_.size());
  }

  void record_movement(Chunk& found) const {
    const State& s = state_;
    const auto lanes = static_cast<std::size_t>(s.lanes);
    std::vector<std::int32_t> moved(2 * lanes);
    for (Size k = 0; k < s.vectors; k++) {
      for (Size j = 0; j < s.inputs; j++) {
        const float* now = s.weight + (k * s.rows + j) * s.lanes;
        const float* before = before_ + (k * s.rows + j) * s.lanes;
        std::int32_t* largest = moved.data() + ((s.support[j / 32] >> (j % 32)) & 1) * lanes;
        for (std::size_t i = 0; i < lanes; i++) {
          largest[i] = std::max(largest[i], bits_of(std::abs(now[i] - before[i])));
        }
      }
    }
    const auto half = moved.begin() + static_cast<Size>(lanes);
    found.irrelevant.push_back(std::bit_cast<float>(*std::max_element(moved.begin(), half)));
    found.relevant.push_back(std::bit_cast<float>(*std::max_element(half, moved.end())));
  }

  // The examples of the checks, in a ring: the first to be evaluated is at `front_`.
  std::vector<std::uint32_t> line_;
  std::vector<char> wrong_;
  Size front_ = 0;
  float* before_ = nullptr;  // the weights when recording began
  Sums since_;               // since the last point of a curve
};

// The examples of the minibatches of some steps.
auto minibatches(const KeyPair& key, std::int64_t step, Size steps, Size batch_size,
                 std::int64_t sample_size, const std::string& order) {
  require_between("step", step, 0, largest_step);
  require_between("batch_size", batch_size, 1, largest_drawn);
  require(steps >= 0 && steps <= largest_drawn / batch_size,
          "steps*batch_size must be in 0 ... 2^30: steps=", steps, ", batch_size=", batch_size);
  require(sample_size >= 1 && sample_size <= largest_sample,
          "sample_size must be in 1 ... 2^30: sample_size=", sample_size);
  Memory memory;
  State state{};
  state.order = order_of(order, sample_size);
  state.batch = batch_size;
  state.batches_key = key_of(key);
  state.sample_size = static_cast<std::uint64_t>(sample_size);
  check_draws(state, step + steps);
  const Size capacity = round_up(batch_size, 32);
  reserve_epochs(state, memory, capacity);
  std::uint32_t* here = memory.allocate<std::uint32_t>(capacity);
  Result<std::uint32_t> result(steps, batch_size);
  {
    Work work;
    for (Size i = 0; i < steps; i++) {
      kernel_in_use().minibatch(state, static_cast<std::uint64_t>(step + i), here);
      std::copy_n(here, batch_size, result.get() + i * batch_size);
      work.beat();
    }
  }
  return result.array();
}

// The values and derivatives of an activation.
auto activate(const Vector& z, const std::string& activation, int degree, double scale,
              const std::vector<double>& coefficients, const std::optional<Matrix>& table) {
  Memory memory;
  State state{};
  set_activation(state, memory, {activation, degree, scale, coefficients, table});
  require(state.activation != Activation::relu && state.activation != Activation::product,
          "activation must be other than relu and product: got '", activation, "'");
  Result<float> value(rows_of(z)), derivative(rows_of(z));
  {
    Work work;
    for (Size first = 0; first < rows_of(z); first += largest_block) {
      const Size count = std::min(largest_block, rows_of(z) - first);
      kernel_in_use().activate(state, z.data() + first, count, value.get() + first,
                               derivative.get() + first);
      work.beat();
    }
  }
  return std::make_tuple(value.array(), derivative.array());
}

}  // namespace

void bind_signs(nb::module_& m) {
  m.def("activate", activate, "z"_a, nb::kw_only(), "activation"_a, "degree"_a = 1, "scale"_a = 1.0,
        "coefficients"_a = std::vector<double>(), "table"_a = nb::none(),
        "Values (N,) and derivatives (N,) of an activation at z (N,), as `Network` computes them.");
  m.def("minibatches", minibatches, "key"_a, "step"_a, "steps"_a, nb::kw_only(), "batch_size"_a,
        "sample_size"_a, "order"_a,
        "Indices (steps, batch_size) of the examples of a sample in the minibatches from a step "
        "on; `order` is replacement or epochs.");

  nb::class_<Chunk>(m, "Chunk", "The results of Network.advance_checked.")
      .def_ro("ends", &Chunk::ends,
              "The step at which each interval ended: at a check, or where the chunk did.")
      .def_ro("loss", &Chunk::loss, "Mean minibatch loss of each interval.")
      .def_ro("error", &Chunk::error, "Mean minibatch error of each interval.")
      .def_ro("mistakes", &Chunk::mistakes,
              "The exact number at the last check, if it is allowed; -1: every check had more.")
      .def_ro(
          "point_loss", &Chunk::point_loss,
          "Mean minibatch loss over the steps since the last point, one entry per point reached.")
      .def_ro("point_error", &Chunk::point_error, "The same of the minibatch error.")
      .def_ro("point_mistakes", &Chunk::point_mistakes,
              "The number among the first examples at each point reached.")
      .def_prop_ro(
          "since",
          [](const Chunk& chunk) {
            return std::make_tuple(chunk.since.steps, chunk.since.loss, chunk.since.error);
          },
          "The steps since the last point, and the sums of minibatch loss and error over them.")
      .def_ro("checking_seconds", &Chunk::checking_seconds, "How long checks and points took.")
      .def_ro("relevant", &Chunk::relevant,
              "The largest change of a weight of an input in the support, one entry per record.")
      .def_ro("irrelevant", &Chunk::irrelevant,
              "The same for the other inputs; 0 if there are none.");

  bind_network<Network>(
      m, "Network",
      "A two-layer network f(x) = v . sigma(W x + b) + c, or prod (W x + b), in training by "
      "SGD.\n\n"
      "It serves one thread at a time (others get RuntimeError). The interpreter lock is released\n"
      "while it works, and Ctrl-C interrupts it. The same holds for the other networks.")
      .def(
          nb::init<const Matrix&, const Vector&, const Vector&, float, const std::vector<Size>&,
                   int, const std::optional<Vector>&, double, double, std::int64_t,
                   const std::string&, Size, const std::string&, int, double,
                   const std::vector<double>&, const std::optional<Matrix>&, const NamedLoss&,
                   const std::vector<double>&, const std::vector<double>&, bool, double,
                   const std::vector<bool>&, const std::string&, double, double, double,
                   const std::optional<Vector>&, const std::optional<Array<std::uint32_t, 2>>&,
                   const KeyPair&, const KeyPair&, const KeyPair&, std::int64_t>(),
          "weight"_a, "bias"_a, "output_weight"_a, "output_bias"_a, nb::kw_only(), "support"_a,
          "label_sign"_a = 1, "values"_a = nb::none(), "mix"_a = 0.0, "noise"_a, "sample_size"_a,
          "order"_a, "batch_size"_a, "activation"_a = "relu", "degree"_a = 1, "scale"_a = 1.0,
          "coefficients"_a = std::vector<double>(), "table"_a = nb::none(), "loss"_a,
          "learning_rates"_a, "decays"_a, "decay_in_gradient"_a = true,
          "clip"_a = std::numeric_limits<double>::infinity(),
          "present"_a = std::vector<bool>(parameter_count, true), "optimiser"_a = "sgd",
          "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8, "cumulative"_a = nb::none(),
          "supports"_a = nb::none(), "sample_key"_a, "batches_key"_a, "noise_key"_a, "step"_a = 0,
          "Take copies of W (width, n), b (width,), v (width,), c.\n\n"
          "The label is the product of the inputs in `support` times `label_sign`, flipped with\n"
          "probability `noise`; or, with `values` (2^k,) for a support of k, the value at the "
          "place\n"
          "whose bit i is set where the support's ith input is -1 (losses square and correlation; "
          "an\n"
          "example is wrong if its output differs by more than 1/2). A fraction `mix` of the "
          "examples has one common sign on all of "
          "the\n"
          "support. `sample_size` 0 is online training (`order` then has no effect). Learning\n"
          "rates and decays are for W, b, v, c in this order; a step keeps 1 - decay of a\n"
          "parameter, or with `decay_in_gradient` 1 - rate * factor * decay. `step` is the first\n"
          "step to take (after a resume). `loss` is a name and a factor. `optimiser` is sgd,\n"
          "momentum, nesterov or adam, `beta1` the momentum. Gradients of a norm above `clip` are\n"
          "scaled down to it; arrays that are not `present` do not count in it.\n\n"
          "With `cumulative` (controls,) inputs are that many one-hot control inputs, and then\n"
          "bits 0 or 1. The probabilities of the controls up to each one are `cumulative`; the\n"
          "label is 1 if an even number of the bits in the row of `supports` (controls, k) is "
          "set.\n\n"
          "`degree` is the power's degree or the size of the parity that an oscillation fits,\n"
          "`scale` the factor of preactivations in a sine or sinusoid, the slope of a leaky ReLU,\n"
          "the alpha of an ELU, or the length of a table's intervals. `coefficients` (degree + 1)\n"
          "are the polynomial's, of degree 0 first; `table` (9, 32) has on each piece "
          "coefficients\n"
          "in descending degree and a slope. With \"product\" (at most 64 rows) v must be 1, c 0,\n"
          "and their rates 0.\n\n"
          "Raises ValueError, with the rule and the value, for a bad argument.")
      .def("advance", &Network::advance, "factors"_a,
           "Take one step per schedule factor; return the steps done, fewer if it diverged.")
      .def(
          "advance_checked", &Network::advance_checked, "factors"_a, nb::kw_only(), "key"_a,
          "every"_a, "examples"_a, "allowed"_a, "record_every"_a = 0,
          "points"_a = std::vector<Size>(), "point_examples"_a = 0, "seconds"_a,
          "Take one step per schedule factor, from check to check.\n\n"
          "Every `every` steps the network is checked on the first `examples` examples of stream\n"
          "`key` (0: on none). The chunk ends at a check with at most `allowed` mistakes, after\n"
          "about this many seconds, or where the network diverges. Every `record_every` steps (0:\n"
          "never) the change of the weights is recorded; `begin_recording` first. After each of\n"
          "`points`, ascending numbers of steps, an interval ends and the mistakes among the "
          "first\n"
          "`point_examples` (at most 384) examples of the stream are counted.")
      .def("begin_recording", &Network::begin_recording,
           "From now on the weights are compared with the present ones.")
      .def("wrong", &Network::wrong, "key"_a, "index"_a, "noisy"_a,
           "Whether label * output <= 0 (or not a number) on the examples of stream `key`.")
      .def("predict", &Network::predict, "x"_a, "Outputs (N,) on real inputs (N, n).");
  m.def("activations", activations, "The kinds of activations that `Network` takes.");
}

}  // namespace elegans
