// One transformer that is read at a class token in training: memory, checks and bookkeeping around
// a kernel.
#include "bits.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "bits_types.hpp"
#include "checks.hpp"
#include "dispatch.hpp"
#include "guards.hpp"
#include "python.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace elegans {

namespace baseline {
extern const BitsKernel bits_kernel;
}
namespace avx2 {
extern const BitsKernel bits_kernel;
}
namespace avx512 {
extern const BitsKernel bits_kernel;
}
namespace avx512_popcount {
extern const BitsKernel bits_kernel;
}

namespace {

using Array = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = nb::ndarray<const std::uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using KeyPair = std::pair<std::uint32_t, std::uint32_t>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr Size largest_bits = 1 << 16, largest_size = 1 << 12;
constexpr Size block_bytes = 1 << 18;  // what a block's tokens may take: a share of the cache

// The kernel of the instruction set in use.
const BitsKernel& bits_kernel() {
  const std::string name = kernel_in_use().name;
#if defined(__x86_64__)
  for (const BitsKernel* kernel :
       {&avx2::bits_kernel, &avx512::bits_kernel, &avx512_popcount::bits_kernel}) {
    if (name == kernel->name) return *kernel;
  }
#endif
  return baseline::bits_kernel;
}

struct BitsOptions {
  Size n, width, heads, head_size, hidden;
  std::string encoding;
  std::uint32_t drop;
  Key dropout_key;
  std::string loss;
  double loss_scale;
  Size batch_size;
  bool adaptive, decay_in_gradient;
  double clip, beta1, beta2, epsilon;
};

void check_size(const char* name, Size size, Size largest) {
  require(size >= 1 && size <= largest, name, " must be in 1 ... ", largest, ": ", name, "=", size);
}

void check(const BitsOptions& options) {
  check_size("n", options.n, largest_bits);
  check_size("width", options.width, largest_size);
  check_size("heads", options.heads, largest_size);
  check_size("head_size", options.head_size, largest_size);
  check_size("hidden", options.hidden, largest_bits);
  require(options.batch_size >= 1,
          "batch_size must be at least 1: batch_size=", options.batch_size);
  require(options.drop < 1 << 16, "drop must be below 2^16: drop=", options.drop);
  require(options.loss_scale > 0 && std::isfinite(options.loss_scale),
          "loss_scale must be positive: loss_scale=", options.loss_scale);
  require(options.clip > 0, "clip must be positive: clip=", options.clip);
  for (const double beta : {options.beta1, options.beta2}) {
    require(beta >= 0 && beta < 1, "betas must be in [0, 1): got ", beta);
  }
  require(options.epsilon > 0 && std::isfinite(options.epsilon),
          "epsilon must be positive: epsilon=", options.epsilon);
}

class BitsNetwork {
 public:
  BitsNetwork(const Array& parameters, const Array& learning_rates, const Array& decays,
              const BitsOptions& options)
      : kernel_(bits_kernel()), loss_(not_a_number), error_(not_a_number) {
    check(options);
    BitsState& s = state_;
    s.lanes = kernel_.lanes;
    s.n = options.n;
    s.width = options.width;
    s.heads = options.heads;
    s.head_size = options.head_size;
    s.hidden = options.hidden;
    s.batch = options.batch_size;
    s.tokens = s.n + 1;
    s.wide = round_up(s.width, s.lanes);
    s.over = round_up(s.heads, s.lanes);
    s.across = round_up(s.heads * s.head_size, s.lanes);
    s.deep = round_up(s.hidden, s.lanes);
    s.encoding = named<BitsEncoding>("encoding", options.encoding,
                                     {{"trained", BitsEncoding::trained},
                                      {"fixed", BitsEncoding::fixed},
                                      {"bag", BitsEncoding::bag}});
    s.score_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_size)));
    s.drop = options.drop;
    s.kept = 65536.0f / (65536.0f - static_cast<float>(s.drop));
    s.dropout_key = options.dropout_key;
    s.loss = named<Loss>("loss", options.loss,
                         {{"hinge", Loss::hinge},
                          {"square", Loss::square},
                          {"logistic", Loss::logistic},
                          {"correlation", Loss::correlation}});
    s.loss_scale = static_cast<float>(options.loss_scale);
    s.adaptive = options.adaptive;
    s.decay_in_gradient = options.decay_in_gradient;
    s.clip = options.clip;
    s.beta1 = options.beta1;
    s.beta2 = options.beta2;
    s.epsilon = options.epsilon;
    s.diverged_at = -1;
    lay_out_parameters();
    take(parameters, "parameters", s.parameter);
    take(learning_rates, "learning_rates", s.learning_rate);
    take(decays, "decays", s.decay);
    for (float** array : {&s.gradient, &s.first, &s.second}) *array = reserve(s.size);
    lay_out_examples();
    lay_out_block();
    lay_out_tables();
  }
  BitsNetwork(const BitsNetwork&) = delete;
  BitsNetwork& operator=(const BitsNetwork&) = delete;

  // Takes one step per factor; returns the steps done, fewer if it diverged.
  Size advance(const Bits& bits, const Array& labels, const Indices& index, const Array& factors) {
    const auto steps = static_cast<Size>(factors.shape(0));
    const auto batch = static_cast<std::size_t>(state_.batch);
    require(index.shape(0) == factors.shape(0) && index.shape(1) == batch,
            "index must be those of ", steps, " steps of batch_size=", batch, ": got ",
            index.shape(0), " of ", index.shape(1));
    require(labels.shape(0) == bits.shape(0), "bits and labels must be as many: got ",
            bits.shape(0), " and ", labels.shape(0));
    check_bits(bits);
    const std::uint32_t* last = std::max_element(index.data(), index.data() + index.size());
    require(index.size() == 0 || *last < bits.shape(0),
            "index must be below the number of examples ", bits.shape(0));
    const Busy busy(busy_);
    const nb::gil_scoped_release release;
    const FlushSubnormals flush;
    Metronome metronome(pulse);
    loss_ = error_ = not_a_number;
    state_.loss_sum = state_.error_sum = 0;
    Size done = 0;
    for (; done < steps && state_.diverged_at < 0; done++) {
      const std::uint32_t* here = index.data() + done * state_.batch;
      if (!kernel_.step(state_, bits.data(), labels.data(), here, factors(done))) break;
      metronome.beat();
    }
    if (done > 0) {
      loss_ = state_.loss_sum / static_cast<double>(done);
      error_ = state_.error_sum / static_cast<double>(done);
    }
    return done;
  }

  // Outputs without dropout.
  auto outputs(const Bits& bits) {
    check_bits(bits);
    const auto count = static_cast<Size>(bits.shape(0));
    Result<float> result({bits.shape(0)});
    {
      const Busy busy(busy_);
      const nb::gil_scoped_release release;
      const FlushSubnormals flush;
      Metronome metronome(pulse);
      kernel_.prepare(state_);
      for (Size first = 0; first < count; first += state_.block) {
        kernel_.outputs(state_, bits.data() + first * state_.n,
                        std::min(state_.block, count - first), result.data.get() + first);
        metronome.beat();
      }
    }
    return result.array();
  }

  auto parameters() {
    const Busy busy(busy_);
    Result<float> result({static_cast<std::size_t>(state_.size)});
    std::copy_n(state_.parameter, state_.size, result.data.get());
    return result.array();
  }

  std::int64_t step() const { return static_cast<std::int64_t>(state_.step); }
  std::int64_t diverged_at() const { return state_.diverged_at; }
  // Means over the steps of the last advance; not a number if there were none.
  double loss() const { return loss_; }
  double error() const { return error_; }
  const char* instruction_set() const { return kernel_.name; }

 private:
  float* reserve(Size count) { return memory_.allocate<float>(round_up(count, state_.lanes)); }

  void take(const Array& given, const char* name, float*& array) {
    const auto size = static_cast<std::size_t>(state_.size);
    require(given.shape(0) == size, name, " must have length ", size, ": got ", given.shape(0));
    array = reserve(state_.size);
    std::copy_n(given.data(), size, array);
  }

  BitsMatrix matrix(Size rows, Size columns) {
    const Size stride = round_up(columns, state_.lanes);
    return {rows, columns, stride, reserve(rows * stride), reserve(rows * stride)};
  }

  BitsFolded folded(const BitsMatrix& like, bool across) {
    BitsFolded found{};
    found.matrix = matrix(like.rows, like.columns);
    found.bias = reserve(like.rows);
    found.bias_slope = reserve(like.rows);
    if (across) found.across = reserve(like.columns * round_up(like.rows, state_.lanes));
    return found;
  }

  void lay_out_parameters() {
    BitsState& s = state_;
    const Size features = s.heads * s.head_size, width = s.width;
    const bool trained = s.encoding == BitsEncoding::trained;
    BitsMatrix* array = s.array;
    array[bits_token] = matrix(s.encoding == BitsEncoding::bag ? 0 : 2, width);
    array[bits_position] = matrix(s.n + (trained ? 1 : 0), width);
    for (int name : {bits_query, bits_key, bits_value, bits_merge}) {
      array[name] = matrix(features, width);
    }
    for (int name : {bits_query_bias, bits_key_bias, bits_value_bias}) {
      array[name] = matrix(1, features);
    }
    for (int name : {bits_class, bits_merge_bias, bits_scale1, bits_shift1, bits_scale2,
                     bits_shift2, bits_scale3, bits_shift3, bits_residual_bias}) {
      array[name] = matrix(1, width);
    }
    array[bits_hidden] = matrix(s.hidden, width);
    array[bits_hidden_bias] = matrix(1, s.hidden);
    array[bits_residual] = matrix(width, s.hidden);
    array[bits_output] = matrix(2, width);
    for (const BitsMatrix& own : s.array) s.size += own.rows * own.columns;

    s.difference = matrix(1, width);
    s.no_bias = matrix(1, 1);
    s.query = folded(array[bits_query], true);
    s.key = folded(array[bits_key], false);
    s.value = folded(array[bits_value], true);
    s.hidden_map = folded(array[bits_hidden], true);
    s.output = folded(s.difference, false);
    s.merge_across = reserve(width * s.across);
    s.residual_across = reserve(s.hidden * s.wide);
    s.real = reserve(s.wide);
    std::fill_n(s.real, width, 1.0f);
    s.table = reserve((2 * s.n + 1) * s.wide);
    s.table_slope = reserve((2 * s.n + 1) * s.wide);
  }

  void lay_out_examples() {
    BitsState& s = state_;
    const Size slack = 8 * s.lanes;  // half words are drawn, and read, by whole vectors
    s.drawn_size = s.drop ? round_up(s.tokens * s.width + slack, 32) : 32;
    const Size numbers = s.tokens * (s.wide + 2 * s.over) + 4 * s.heads * s.wide;
    const Size bytes = 4 * numbers + 2 * s.drawn_size;
    s.block = std::clamp(block_bytes / bytes, Size{1}, std::min(largest_bits_block, s.batch));
    const Size places = s.block * s.tokens, heads = s.block * s.heads * s.wide;
    s.token = {reserve(places * s.wide), reserve(places)};
    s.drawn = memory_.allocate<std::uint16_t>(s.block * s.drawn_size);
    for (float** array : {&s.weights, &s.dropped}) *array = reserve(places * s.over);
    for (float** array : {&s.asked, &s.asked_back, &s.mixed, &s.mixed_back})
      *array = reserve(heads);
    s.draws = memory_.allocate<std::uint16_t>(std::max(s.over * s.tokens, s.width) + slack);
    s.heads_across = reserve(s.wide * s.over);
    s.scores = reserve(s.tokens * s.over);
    s.place_back = reserve(s.lanes * s.wide);
  }

  void lay_out_block() {
    BitsState& s = state_;
    const auto rows = [&](Size size, auto... arrays) {
      for (float** array : {arrays...}) *array = reserve(s.block * size);
    };
    rows(s.wide, &s.own, &s.own_back, &s.merged_kept, &s.perceptron_kept, &s.stream, &s.back,
         &s.norm2.centred, &s.norm3.centred);
    rows(s.across, &s.asking, &s.asking_back, &s.found, &s.found_back);
    rows(s.over, &s.total, &s.total_back);
    rows(s.deep, &s.sums, &s.active, &s.bent, &s.deep_back);
    rows(1, &s.norm2.inverse, &s.norm3.inverse, &s.output_row, &s.label_row, &s.slope_row);
  }

  void lay_out_tables() {
    BitsState& s = state_;
    const Size count = 2 * s.n + 1;
    for (float** array : {&s.table_score, &s.table_weight, &s.table_value, &s.table_part}) {
      *array = reserve(count * s.across);
    }
    s.table_score_by_head = reserve(count * s.over);
    s.table_normed = {reserve(count * s.wide), reserve(count)};
  }

  void check_bits(const Bits& bits) const {
    require(bits.shape(1) == static_cast<std::size_t>(state_.n), "bits must be ", state_.n,
            " a row: got ", bits.shape(1));
    std::uint8_t all = 0;
    for (std::size_t i = 0; i < bits.size(); i++) all |= bits.data()[i];
    require(all <= 1, "bits must be 0 or 1: got others");
  }

  const BitsKernel& kernel_;
  BitsState state_{};
  Memory memory_;
  double loss_, error_;
  std::atomic<bool> busy_ = false;
};

void make_network(BitsNetwork* self, const Array& parameters, const Array& learning_rates,
                  const Array& decays, Size n, Size width, Size heads, Size head_size, Size hidden,
                  const std::string& encoding, std::uint32_t drop, const KeyPair& dropout_key,
                  const std::string& loss, double loss_scale, Size batch_size,
                  const std::string& optimiser, bool decay_in_gradient, double clip, double beta1,
                  double beta2, double epsilon) {
  const bool adaptive = named<bool>("optimiser", optimiser, {{"adam", true}, {"sgd", false}});
  const Key key{dropout_key.first, dropout_key.second};
  new (self) BitsNetwork(parameters, learning_rates, decays,
                         {n, width, heads, head_size, hidden, encoding, drop, key, loss, loss_scale,
                          batch_size, adaptive, decay_in_gradient, clip, beta1, beta2, epsilon});
}

// The examples of the minibatches of some steps.
auto minibatches(const KeyPair& key, std::int64_t step, Size steps, Size batch_size,
                 std::int64_t sample_size, const std::string& order) {
  require(step >= 0 && steps >= 0, "steps must not be negative: step=", step, ", steps=", steps);
  require(batch_size >= 1, "batch_size must be at least 1: batch_size=", batch_size);
  require(sample_size >= 1 && sample_size <= (1 << 30),
          "sample_size must be in 1 ... 2^30: sample_size=", sample_size);
  Memory memory;
  State state{};
  state.order = named<Order>("order", order,
                             {{"replacement", Order::replacement}, {"epochs", Order::epochs}});
  state.batch = batch_size;
  state.batches_key = {key.first, key.second};
  state.sample_size = static_cast<std::uint64_t>(sample_size);
  const Size capacity = round_up(batch_size, 32);
  state.epoch_capacity = std::max(epoch_block, capacity);
  for (std::uint32_t** array : {&state.epoch_index, &state.epoch_k0, &state.epoch_k1,
                                &state.epoch_value, &state.epoch_slot}) {
    *array = memory.allocate<std::uint32_t>(state.epoch_capacity);
  }
  std::uint32_t* here = memory.allocate<std::uint32_t>(capacity);
  const Kernel& kernel = kernel_in_use();
  Result<std::uint32_t> result(
      {static_cast<std::size_t>(steps), static_cast<std::size_t>(batch_size)});
  {
    const nb::gil_scoped_release release;
    for (Size i = 0; i < steps; i++) {
      kernel.minibatch(state, static_cast<std::uint64_t>(step + i), here);
      std::copy_n(here, batch_size, result.data.get() + i * batch_size);
    }
  }
  return result.array();
}

}  // namespace

void bind_bits(nb::module_& m) {
  m.def(
      "minibatches", minibatches, "key"_a, "step"_a, "steps"_a, nb::kw_only(), "batch_size"_a,
      "sample_size"_a, "order"_a,
      "Indices (steps, batch_size) of the examples of a sample in the minibatches from a step on.");
  nb::class_<BitsNetwork>(m, "BitsNetwork",
                          "One transformer that is read at a class token in training.")
      .def("__init__", make_network, "parameters"_a, "learning_rates"_a, "decays"_a, nb::kw_only(),
           "n"_a, "width"_a, "heads"_a, "head_size"_a, "hidden"_a, "encoding"_a = "trained",
           "drop"_a = 0, "dropout_key"_a = KeyPair{0, 0}, "loss"_a, "loss_scale"_a = 1.0,
           "batch_size"_a, "optimiser"_a, "decay_in_gradient"_a = true,
           "clip"_a = std::numeric_limits<double>::infinity(), "beta1"_a = 0.9, "beta2"_a = 0.999,
           "epsilon"_a = 1e-8)
      .def("advance", &BitsNetwork::advance, "bits"_a, "labels"_a, "index"_a, "factors"_a,
           "Take one step per schedule factor; returns the steps done.")
      .def("outputs", &BitsNetwork::outputs, "bits"_a, "Outputs (N,) without dropout.")
      .def("parameters", &BitsNetwork::parameters, "A copy of all parameters.")
      .def_prop_ro("step", &BitsNetwork::step, "Steps taken.")
      .def_prop_ro("loss", &BitsNetwork::loss, "Mean minibatch loss of the last advance.")
      .def_prop_ro("error", &BitsNetwork::error, "Mean minibatch error of the last advance.")
      .def_prop_ro("diverged_at", &BitsNetwork::diverged_at,
                   "The step whose outputs were not finite; -1: none.")
      .def_prop_ro("instruction_set", &BitsNetwork::instruction_set);
}

}  // namespace elegans
