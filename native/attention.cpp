// One attention-only transformer in training: memory, checks and bookkeeping around a kernel.
#include "attention.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention_types.hpp"
#include "checks.hpp"
#include "dispatch.hpp"
#include "guards.hpp"
#include "python.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace elegans {

namespace baseline {
extern const AttentionKernel attention_kernel;
}
namespace avx2 {
extern const AttentionKernel attention_kernel;
}
namespace avx512 {
extern const AttentionKernel attention_kernel;
}
namespace avx512_popcount {
extern const AttentionKernel attention_kernel;
}

namespace {

using Array = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Batches = nb::ndarray<const std::int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Sequences = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr Size largest_length = 1 << 16, largest_width = 1 << 12, largest_symbols = 1 << 12;

// The kernel of the instruction set in use.
const AttentionKernel& attention_kernel() {
  const std::string name = kernel_in_use().name;
#if defined(__x86_64__)
  for (const AttentionKernel* kernel :
       {&avx2::attention_kernel, &avx512::attention_kernel, &avx512_popcount::attention_kernel}) {
    if (name == kernel->name) return *kernel;
  }
#endif
  return baseline::attention_kernel;
}

struct AttentionOptions {
  Size symbols, width, length;
  std::vector<Size> heads;  // one number a layer
  bool normed;              // layer norms, and heads are merged
  Size batch_size;
  bool adaptive, decay_in_gradient;
  double beta1, beta2, epsilon;
};

void check(const AttentionOptions& options) {
  require(options.symbols >= 1 && options.symbols <= largest_symbols, "symbols must be in 1 ... ",
          largest_symbols, ": symbols=", options.symbols);
  require(options.width >= 1 && options.width <= largest_width, "width must be in 1 ... ",
          largest_width, ": width=", options.width);
  require(options.length >= 1 && options.length <= largest_length, "length must be in 1 ... ",
          largest_length, ": length=", options.length);
  require(!options.heads.empty(), "there must be a layer: heads is empty");
  for (const Size heads : options.heads) {
    require(heads >= 1 && options.width % heads == 0, "heads must divide the width: heads=", heads,
            ", width=", options.width);
  }
  require(options.batch_size >= 1,
          "batch_size must be at least 1: batch_size=", options.batch_size);
  for (const double beta : {options.beta1, options.beta2}) {
    require(beta >= 0 && beta < 1, "betas must be in [0, 1): got ", beta);
  }
  require(options.epsilon > 0 && std::isfinite(options.epsilon),
          "epsilon must be positive: epsilon=", options.epsilon);
}

class AttentionNetwork {
 public:
  AttentionNetwork(const Array& parameters, const Array& learning_rates, const Array& decays,
                   const AttentionOptions& options)
      : kernel_(attention_kernel()), loss_(not_a_number), error_(not_a_number) {
    check(options);
    AttentionState& s = state_;
    s.symbols = options.symbols;
    s.width = options.width;
    s.length = options.length;
    s.batch = options.batch_size;
    s.layers = static_cast<Size>(options.heads.size());
    s.lanes = kernel_.lanes;
    s.rows = round_up(s.length, attention_rows);
    s.stride = s.rows + attention_rows - 1;  // so many zeros end each row
    s.adaptive = options.adaptive;
    s.decay_in_gradient = options.decay_in_gradient;
    s.beta1 = options.beta1;
    s.beta2 = options.beta2;
    s.epsilon = options.epsilon;
    s.diverged_at = -1;
    const Size merged = options.normed ? 1 : 0, width = s.width;
    s.size = 2 * s.symbols * width + merged * 2 * width +
             s.layers * (3 * width * width + s.length * width + merged * (2 + width) * width);
    take(parameters, "parameters", s.parameter);
    take(learning_rates, "learning_rates", s.learning_rate);
    take(decays, "decays", s.decay);
    s.slope = reserve(round_up(s.size, s.lanes));
    s.first = memory_.allocate<float>(round_up(s.size, s.lanes));
    s.second = memory_.allocate<float>(round_up(s.size, s.lanes));
    lay_out(options);
  }
  AttentionNetwork(const AttentionNetwork&) = delete;
  AttentionNetwork& operator=(const AttentionNetwork&) = delete;

  // Takes one step per factor; returns the steps done, fewer if it diverged.
  Size advance(const Batches& tokens, const Batches& labels, const Array& factors) {
    const auto steps = static_cast<Size>(factors.shape(0));
    const auto batch = static_cast<std::size_t>(state_.batch);
    for (const Batches* given : {&tokens, &labels}) {
      require(given->shape(0) == factors.shape(0) && given->shape(1) == batch,
              "tokens and labels must be those of ", steps, " steps of batch_size=", batch,
              ": got ", given->shape(0), " of ", given->shape(1));
      check_symbols(given->data(), given->size(), given->shape(2));
    }
    const Busy busy(busy_);
    const nb::gil_scoped_release release;
    const FlushSubnormals flush;
    Metronome metronome(pulse);
    loss_ = error_ = not_a_number;
    state_.loss_sum = state_.error_sum = 0;
    Size done = 0;
    for (; done < steps && state_.diverged_at < 0; done++) {
      const Size place = done * state_.batch * state_.length;
      if (!kernel_.step(state_, tokens.data() + place, labels.data() + place, factors(done))) break;
      metronome.beat();
    }
    if (done > 0) {
      loss_ = state_.loss_sum / static_cast<double>(done);
      error_ = state_.error_sum / static_cast<double>(done);
    }
    return done;
  }

  // Logits [count][length][symbols].
  auto outputs(const Sequences& tokens) {
    check_symbols(tokens.data(), tokens.size(), tokens.shape(1));
    const Size numbers = state_.length * state_.symbols;
    Result<float> result({tokens.shape(0), static_cast<std::size_t>(state_.length),
                          static_cast<std::size_t>(state_.symbols)});
    each_block(static_cast<Size>(tokens.shape(0)), [&](Size first, Size count) {
      kernel_.outputs(state_, tokens.data() + first * state_.length, count);
      for (Size lane = 0; lane < count; lane++) {
        float* row = result.data.get() + (first + lane) * numbers;
        for (Size p = 0; p < numbers; p++) row[p] = state_.logits[p * state_.lanes + lane];
      }
    });
    return result.array();
  }

  // Whether another symbol's logit at the last position is at least the label's.
  auto wrong(const Sequences& tokens, const Sequences& labels) {
    require(tokens.shape(0) == labels.shape(0), "tokens and labels must be as many: got ",
            tokens.shape(0), " and ", labels.shape(0));
    for (const Sequences* given : {&tokens, &labels}) {
      check_symbols(given->data(), given->size(), given->shape(1));
    }
    Result<bool> result({tokens.shape(0)});
    each_block(static_cast<Size>(tokens.shape(0)), [&](Size first, Size count) {
      const Size place = first * state_.length;
      kernel_.wrong(state_, tokens.data() + place, labels.data() + place, count);
      for (Size lane = 0; lane < count; lane++) {
        result.data[static_cast<std::size_t>(first + lane)] = state_.last_wrong[lane] > 0;
      }
    });
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
  float* reserve(Size count) { return memory_.allocate<float>(count * state_.lanes); }

  void take(const Array& given, const char* name, float*& array) {
    const auto size = static_cast<std::size_t>(state_.size);
    require(given.shape(0) == size, name, " must have length ", size, ": got ", given.shape(0));
    array = memory_.allocate<float>(round_up(state_.size, state_.lanes));
    std::copy_n(given.data(), size, array);
  }

  // Hands out the parameters in order, and the memory in which steps are computed.
  void lay_out(const AttentionOptions& options) {
    AttentionState& s = state_;
    const Size width = s.width, activations = s.rows * width;
    Size used = 0;
    const auto next = [&](Size count) {
      const AttentionWeight weight{s.parameter + used, s.slope + used * s.lanes};
      used += count;
      return weight;
    };
    const auto norm = [&](float* input) {
      AttentionNorm found{};
      found.normed = input;
      if (!options.normed) return found;
      found.scale = next(width);
      found.shift = next(width);
      found.centred = reserve(activations);
      found.inverse = reserve(s.rows);
      found.normed = reserve(activations);
      return found;
    };
    s.embedding = next(s.symbols * width);
    s.layer = memory_.allocate<AttentionLayer>(s.layers);
    for (Size l = 0; l < s.layers; l++) {
      AttentionLayer& layer = s.layer[l];
      layer.heads = options.heads[static_cast<std::size_t>(l)];
      layer.head_size = width / layer.heads;
      layer.input = reserve(activations);
      layer.norm = norm(layer.input);
      layer.matrix = next(3 * width * width);
      layer.relative = next(s.length * width);
      if (options.normed) layer.merge = next(width * width);
      layer.sums = reserve(3 * activations);
      layer.weights = reserve(layer.heads * s.rows * s.stride + attention_rows);
      layer.attended = reserve(activations);
      layer.distance = memory_.allocate<float>((attention_rows - 1 + s.rows) * width);
    }
    s.stream = reserve(activations);
    s.norm = norm(s.stream);
    s.output = next(width * s.symbols);
    s.token = memory_.allocate<std::int32_t>(s.rows * s.lanes);
    s.label = memory_.allocate<std::int32_t>(s.rows * s.lanes);
    s.chosen = reserve(s.rows * s.symbols);
    s.logits = reserve(s.rows * s.symbols);
    s.last_wrong = reserve(1);
    s.back = reserve(activations);
    s.normed_back = reserve(activations);
    s.attended_back = reserve(activations);
    s.sums_back = reserve(3 * activations);
  }

  void check_symbols(const std::int32_t* number, std::size_t count, std::size_t length) const {
    require(length == static_cast<std::size_t>(state_.length), "sequences must have length ",
            state_.length, ": got ", length);
    const auto symbols = static_cast<std::uint32_t>(state_.symbols);
    std::uint32_t beyond = 0;
    for (std::size_t i = 0; i < count; i++) {
      beyond |= static_cast<std::uint32_t>(static_cast<std::uint32_t>(number[i]) >= symbols);
    }
    require(beyond == 0, "tokens and labels must be in 0 ... symbols-1 with symbols=", symbols);
  }

  template <class Function>
  void each_block(Size count, Function function) {
    const Busy busy(busy_);
    const nb::gil_scoped_release release;
    const FlushSubnormals flush;
    Metronome metronome(pulse);
    for (Size first = 0; first < count; first += state_.lanes) {
      function(first, std::min(state_.lanes, count - first));
      metronome.beat();
    }
  }

  const AttentionKernel& kernel_;
  AttentionState state_{};
  Memory memory_;
  double loss_, error_;
  std::atomic<bool> busy_ = false;
};

void make_network(AttentionNetwork* self, const Array& parameters, const Array& learning_rates,
                  const Array& decays, Size symbols, Size width, Size length,
                  std::vector<Size> heads, bool normed, Size batch_size,
                  const std::string& optimiser, bool decay_in_gradient, double beta1, double beta2,
                  double epsilon) {
  const bool adaptive = named<bool>("optimiser", optimiser, {{"adam", true}, {"sgd", false}});
  new (self) AttentionNetwork(parameters, learning_rates, decays,
                              {symbols, width, length, std::move(heads), normed, batch_size,
                               adaptive, decay_in_gradient, beta1, beta2, epsilon});
}

}  // namespace

void bind_attention(nb::module_& m) {
  nb::class_<AttentionNetwork>(m, "AttentionNetwork", "One attention-only transformer in training.")
      .def("__init__", make_network, "parameters"_a, "learning_rates"_a, "decays"_a, nb::kw_only(),
           "symbols"_a, "width"_a, "length"_a, "heads"_a, "normed"_a, "batch_size"_a, "optimiser"_a,
           "decay_in_gradient"_a = true, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8)
      .def("advance", &AttentionNetwork::advance, "tokens"_a, "labels"_a, "factors"_a,
           "Take one step per schedule factor; returns the steps done.")
      .def("outputs", &AttentionNetwork::outputs, "tokens"_a,
           "Logits (N, length, symbols) of the next tokens.")
      .def("wrong", &AttentionNetwork::wrong, "tokens"_a, "labels"_a,
           "Whether the last position of each sequence is misclassified.")
      .def("parameters", &AttentionNetwork::parameters, "A copy of all parameters.")
      .def_prop_ro("step", &AttentionNetwork::step, "Steps taken.")
      .def_prop_ro("loss", &AttentionNetwork::loss, "Mean minibatch loss of the last advance.")
      .def_prop_ro("error", &AttentionNetwork::error, "Mean minibatch error of the last advance.")
      .def_prop_ro("diverged_at", &AttentionNetwork::diverged_at,
                   "The step whose outputs were not finite; -1: none.")
      .def_prop_ro("instruction_set", &AttentionNetwork::instruction_set);
}

}  // namespace elegans
