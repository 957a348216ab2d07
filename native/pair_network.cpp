// One network on pairs in training.
#include "pair_host.hpp"

namespace elegans {
namespace {

class PairNetwork final : public PairHost<Host<PairState>> {
 public:
  PairNetwork(const Matrix& hidden, const Matrix& output, const Table& table,
              const std::string& activation, int degree, bool population, Size batch_size,
              const std::vector<double>& learning_rates, const std::vector<double>& decays,
              bool decay_in_gradient, double penalty, double penalty_norm, double penalty_exponent,
              const NamedLoss& loss, const std::string& optimiser, double beta1, double beta2,
              double epsilon, const KeyPair& sample_key, std::int64_t step) {
    PairState& s = state_;
    take_task(table, population, batch_size, loss, sample_key);
    const Size width = rows_of(hidden), order = s.order;
    require_length("a row of hidden", hidden.shape(1), "2*order", 2 * order);
    require_length("output", output.shape(0), "order", order);
    require_length("a row of output", output.shape(1), "width", width);
    require(width >= 1, "width must be at least 1: width=", width);
    require_between("degree", degree, 1, largest_degree);
    require(learning_rates.size() == 2, "learning_rates must have length 2: got ",
            learning_rates.size());
    require(decays.size() == 2, "decays must have length 2: got ", decays.size());
    require_finite("learning_rates", learning_rates);
    require_finite("decays", decays);
    require(penalty >= 0 && std::isfinite(penalty),
            "penalty must be at least 0: penalty=", penalty);
    require_positive("penalty_norm", penalty_norm);
    require_positive("penalty_exponent", penalty_exponent);
    require(step >= 0, "step must not be negative: step=", step);
    s.width = width;
    s.blocks = round_up(width, pair_block) / pair_block;
    s.rows = 3 * order;
    s.activation = named<Activation>("activation", activation,
                                     {{"relu", Activation::relu}, {"power", Activation::power}});
    s.degree = degree;
    for (std::size_t layer = 0; layer < 2; layer++) {
      s.learning_rate[layer] = static_cast<float>(learning_rates[layer]);
      s.decay[layer] = static_cast<float>(decays[layer]);
    }
    s.decay_in_gradient = decay_in_gradient;
    s.penalty = static_cast<float>(penalty);
    s.penalty_norm = static_cast<float>(penalty_norm);
    s.penalty_exponent = static_cast<float>(penalty_exponent);
    set_optimiser(s, optimiser, beta1, beta2, epsilon);
    require(!s.keeps || step == 0, "step must be 0 with optimiser='", optimiser, "': step=", step);
    s.step = static_cast<std::uint64_t>(step);
    check_draws(step);
    reserve();
    each_parameter([&](float& own, Size layer, Size place) {
      own = (layer == 0 ? hidden : output).data()[place];
    });
  }

  Size advance(const Vector& factors, const GivenPairs& pairs) {
    const double work =
        static_cast<double>(state_.batch * state_.width) * static_cast<double>(state_.order);
    return take_pairs(*kernel_.pairs, factors, pairs, work);
  }

  auto parameters() {
    const Busy busy(busy_);
    Result<float> hidden(state_.width, 2 * state_.order), output(state_.order, state_.width);
    each_parameter([&](const float& own, Size layer, Size place) {
      (layer == 0 ? hidden : output).get()[place] = own;
    });
    return std::make_tuple(hidden.array(), output.array());
  }

 private:
  void evaluate(Size count) override { kernel_.pairs->outputs(state_, count); }

  void reserve() {
    PairState& s = state_;
    s.parameter = memory_.allocate<float>(s.blocks * s.rows * pair_block);
    s.gradient = memory_.allocate<float>(s.blocks * s.rows * pair_block);
    if (s.keeps) {
      s.first = memory_.allocate<float>(s.blocks * s.rows * pair_block);
      if (s.optimiser == Optimiser::adam) {
        s.second = memory_.allocate<float>(s.blocks * s.rows * pair_block);
      }
    }
    s.strength = memory_.allocate<float>(s.blocks * pair_block);
    s.value_by_pair = memory_.allocate<float>(pair_group * pair_block * pair_tile);
    s.value = memory_.allocate<float>(pair_tile * pair_block);
    s.derivative = memory_.allocate<float>(pair_tile * pair_block);
  }

  // Calls `function` with each parameter, its layer, and its index in [width][2 * order] or
  // [order][width].
  template <class Function>
  void each_parameter(Function function) const {
    const Size width = state_.width, inputs = 2 * state_.order;
    for (Size neuron = 0; neuron < width; neuron++) {
      float* first = state_.parameter + neuron / pair_block * state_.rows * pair_block;
      for (Size row = 0; row < state_.rows; row++) {
        float& own = first[row * pair_block + neuron % pair_block];
        if (row < inputs) {
          function(own, 0, neuron * inputs + row);
        } else {
          function(own, 1, (row - inputs) * width + neuron);
        }
      }
    }
  }
};

}  // namespace

void bind_pairs(nb::module_& m) {
  bind_network<PairNetwork>(
      m, "PairNetwork",
      "A network on pairs of elements, f(a, b) = sum_i sigma(u_i(a) + v_i(b)) w_i, trained on the\n"
      "cross-entropy or the square loss of one-hot targets by SGD or Adam. The right class of\n"
      "(a, b) is table[a, b].")
      .def(
          nb::init<const Matrix&, const Matrix&, const Table&, const std::string&, int, bool, Size,
                   const std::vector<double>&, const std::vector<double>&, bool, double, double,
                   double, const NamedLoss&, const std::string&, double, double, double,
                   const KeyPair&, std::int64_t>(),
          "hidden"_a, "output"_a, "table"_a, nb::kw_only(), "activation"_a = "power",
          "degree"_a = 2, "population"_a, "batch_size"_a, "learning_rates"_a,
          "decays"_a = std::vector<double>{0.0, 0.0}, "decay_in_gradient"_a = true,
          "penalty"_a = 0.0, "penalty_norm"_a = 2.0, "penalty_exponent"_a = 2.0,
          "loss"_a = NamedLoss{"cross-entropy", 1.0}, "optimiser"_a = "sgd", "beta1"_a = 0.9,
          "beta2"_a = 0.999, "epsilon"_a = 1e-8, "sample_key"_a, "step"_a = 0,
          "Take copies of (u, v) side by side (width, 2 order), w (order, width) and the table\n"
          "(order, order).\n\n"
          "Each step takes every pair once with `population` (`batch_size` must then be order^2),\n"
          "else `batch_size` fresh pairs, or those given to `advance`. Learning rates and decays "
          "are for hidden and output\n"
          "weights; decays are as in `Network`. The loss has a further term penalty * (sum_i\n"
          "|neuron i|_2^b)^(r/b), b being `penalty_norm` and r `penalty_exponent`; a neuron's "
          "norm\n"
          "is that of all of its weights. `loss` is a name and a factor: cross-entropy, whose\n"
          "factor is not used, or one-hot-square. `optimiser` is sgd, momentum, nesterov or adam,\n"
          "`beta1` the momentum; Adam's decays are outside of its running means. `step` is the\n"
          "first step to take after a resume, 0 unless with sgd.\n\n"
          "Raises ValueError, with the rule and the value, for a bad argument.")
      .def("advance", &PairNetwork::advance, "factors"_a, "pairs"_a = nb::none(),
           "Take one step per schedule factor, on the pairs (steps, batch_size) where they are "
           "given;\n"
           "return the steps done, fewer if it diverged.")
      .def("outputs", &PairNetwork::outputs, "pairs"_a,
           "Outputs (N, order) on pairs by their numbers a * order + b.")
      .def("wrong", &PairNetwork::wrong, "pairs"_a,
           "Whether the right output of each pair is not above all others.");
}

}  // namespace elegans
