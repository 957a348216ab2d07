// The Python module elegans._native.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sstream>

#include "attention.hpp"
#include "bits.hpp"
#include "dense.hpp"
#include "dispatch.hpp"
#include "network.hpp"
#include "pair_network.hpp"
#include "python.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace elegans {
namespace {

using Indices = nb::ndarray<const std::uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using KeyPair = std::pair<std::uint32_t, std::uint32_t>;

Key key_of(const KeyPair& pair) { return {pair.first, pair.second}; }
Size length(const Indices& x) { return static_cast<Size>(x.shape(0)); }

[[noreturn]] void refuse(const std::string& rule, std::size_t got) {
  throw std::invalid_argument(rule + ": got " + std::to_string(got));
}

void check_length(const char* name, std::size_t got, const char* what, std::size_t wanted) {
  if (got == wanted) return;
  std::ostringstream message;
  message << name << " must have length " << what << "=" << wanted;
  refuse(message.str(), got);
}

nb::tuple words(const KeyPair& key, const Indices& c0, const Indices& c1) {
  check_length("c1", c1.shape(0), "of c0", c0.shape(0));
  Result<std::uint32_t> w0({c0.shape(0)}), w1({c0.shape(0)});
  {
    const nb::gil_scoped_release release;
    kernel_in_use().words(key_of(key), c0.data(), c1.data(), length(c0), w0.data.get(),
                          w1.data.get());
  }
  return nb::make_tuple(w0.array(), w1.array());
}

KeyPair fold(const KeyPair& key, std::uint32_t number) {
  const std::uint32_t zero = 0;
  KeyPair found;
  kernel_in_use().words(key_of(key), &zero, &number, 1, &found.first, &found.second);
  return found;
}

auto python_signs(const KeyPair& key, const Indices& index, Size n) {
  if (n < 1) throw std::invalid_argument("n must be at least 1: n=" + std::to_string(n));
  Result<std::int8_t> result({index.shape(0), static_cast<std::size_t>(n)});
  {
    const nb::gil_scoped_release release;
    signs(key_of(key), index.data(), length(index), n, result.data.get());
  }
  return result.array();
}

double python_fma_peak(double seconds) {
  const nb::gil_scoped_release release;
  return fma_peak(seconds, pulse);
}

void make_network(Network* self, const Matrix& weight, const Vector& bias,
                  const Vector& output_weight, float output_bias, std::vector<Size> support,
                  int label_sign, double mix, double noise, std::int64_t sample_size,
                  std::string order, Size batch_size, std::string activation, int degree,
                  double scale, std::vector<double> coefficients, std::string loss,
                  double loss_scale, std::vector<double> learning_rates, std::vector<double> decays,
                  bool decay_in_gradient, KeyPair sample_key, KeyPair batches_key,
                  KeyPair noise_key, std::int64_t step) {
  check_length("bias", bias.shape(0), "width", weight.shape(0));
  check_length("output_weight", output_weight.shape(0), "width", weight.shape(0));
  const Options options{std::move(support),
                        label_sign,
                        mix,
                        noise,
                        sample_size,
                        std::move(order),
                        batch_size,
                        std::move(activation),
                        degree,
                        scale,
                        std::move(coefficients),
                        std::move(loss),
                        loss_scale,
                        std::move(learning_rates),
                        std::move(decays),
                        decay_in_gradient,
                        key_of(sample_key),
                        key_of(batches_key),
                        key_of(noise_key),
                        step};
  new (self)
      Network(weight.data(), bias.data(), output_weight.data(), output_bias,
              static_cast<Size>(weight.shape(0)), static_cast<Size>(weight.shape(1)), options);
}

Size advance(Network& self, const Vector& factors) {
  const nb::gil_scoped_release release;
  return self.advance(factors.data(), static_cast<Size>(factors.shape(0)), pulse);
}

Stretch stretch(Network& self, const Vector& factors, const KeyPair& key, Size every, Size examples,
                Size allowed, Size record_every, double seconds) {
  const nb::gil_scoped_release release;
  return self.stretch(factors.data(), static_cast<Size>(factors.shape(0)),
                      {key_of(key), every, examples, allowed}, record_every, seconds, pulse);
}

auto wrong(Network& self, const KeyPair& key, const Indices& index, bool noisy) {
  Result<bool> result({index.shape(0)});
  {
    const nb::gil_scoped_release release;
    self.wrong(key_of(key), index.data(), length(index), noisy, result.data.get(), pulse);
  }
  return result.array();
}

auto labels(Network& self, const KeyPair& key, const Indices& index, bool noisy) {
  Result<std::int8_t> result({index.shape(0)});
  {
    const nb::gil_scoped_release release;
    self.labels(key_of(key), index.data(), length(index), noisy, result.data.get());
  }
  return result.array();
}

auto predict(Network& self, const Matrix& x) {
  const auto inputs = static_cast<std::size_t>(self.inputs());
  if (x.shape(1) != inputs)
    refuse("x must have n=" + std::to_string(inputs) + " columns", x.shape(1));
  Result<float> result({x.shape(0)});
  {
    const nb::gil_scoped_release release;
    self.predict(x.data(), static_cast<Size>(x.shape(0)), result.data.get(), pulse);
  }
  return result.array();
}

auto minibatch(Network& self, std::int64_t step) {
  Result<std::uint32_t> result({static_cast<std::size_t>(self.batch_size())});
  self.minibatch(step, result.data.get());
  return result.array();
}

nb::tuple parameters(Network& self) {
  const auto width = static_cast<std::size_t>(self.width());
  Result<float> weight({width, static_cast<std::size_t>(self.inputs())});
  Result<float> bias({width}), output({width});
  float output_bias = 0;
  {
    const nb::gil_scoped_release release;
    output_bias = self.parameters(weight.data.get(), bias.data.get(), output.data.get());
  }
  return nb::make_tuple(weight.array(), bias.array(), output.array(), output_bias);
}

void make_pair_network(PairNetwork* self, const Matrix& hidden, const Matrix& output,
                       const Table& table, std::string activation, int degree, bool population,
                       Size batch_size, std::vector<double> learning_rates,
                       std::vector<double> decays, bool decay_in_gradient, double penalty,
                       double penalty_norm, double penalty_exponent, KeyPair sample_key,
                       std::int64_t step) {
  const std::size_t width = hidden.shape(0), order = table.shape(0);
  check_length("a row of table", table.shape(1), "order", order);
  check_length("a row of hidden", hidden.shape(1), "2*order", 2 * order);
  check_length("output", output.shape(0), "order", order);
  check_length("a row of output", output.shape(1), "width", width);
  const PairOptions options{std::move(activation),
                            degree,
                            population,
                            batch_size,
                            std::move(learning_rates),
                            std::move(decays),
                            decay_in_gradient,
                            penalty,
                            penalty_norm,
                            penalty_exponent,
                            key_of(sample_key),
                            step};
  new (self) PairNetwork(hidden.data(), output.data(), table.data(), static_cast<Size>(width),
                         static_cast<Size>(order), options);
}

Size advance_pairs(PairNetwork& self, const Vector& factors) {
  const nb::gil_scoped_release release;
  return self.advance(factors.data(), static_cast<Size>(factors.shape(0)), pulse);
}

auto pair_outputs(PairNetwork& self, const Indices& pairs) {
  Result<float> result({pairs.shape(0), static_cast<std::size_t>(self.order())});
  {
    const nb::gil_scoped_release release;
    self.outputs(pairs.data(), length(pairs), result.data.get(), pulse);
  }
  return result.array();
}

auto wrong_pairs(PairNetwork& self, const Indices& pairs) {
  Result<bool> result({pairs.shape(0)});
  {
    const nb::gil_scoped_release release;
    self.wrong(pairs.data(), length(pairs), result.data.get(), pulse);
  }
  return result.array();
}

auto pair_minibatch(PairNetwork& self, std::int64_t step) {
  Result<std::uint32_t> result({static_cast<std::size_t>(self.batch_size())});
  self.minibatch(step, result.data.get());
  return result.array();
}

nb::tuple pair_parameters(PairNetwork& self) {
  const auto width = static_cast<std::size_t>(self.width());
  const auto order = static_cast<std::size_t>(self.order());
  Result<float> hidden({width, 2 * order}), output({order, width});
  {
    const nb::gil_scoped_release release;
    self.parameters(hidden.data.get(), output.data.get());
  }
  return nb::make_tuple(hidden.array(), output.array());
}

}  // namespace
}  // namespace elegans

NB_MODULE(_native, m) {
  using namespace elegans;
  m.doc() = "Two-layer networks on sign inputs: draws, training and evaluation in C++.";
  nb::exception<Stopped>(m, "Stopped", PyExc_RuntimeError);
  kernel_in_use();  // a wrong ELEGANS_INSTRUCTION_SET is refused at import

  bind_attention(m);
  bind_bits(m);
  bind_dense(m);
  m.def("words", words, "key"_a, "c0"_a, "c1"_a,
        "Threefry-2x32 (20 rounds): the words of counters (c0, c1).");
  m.def("fold", fold, "key"_a, "number"_a, "The key of the words at counter (0, number).");
  m.def("signs", python_signs, "key"_a, "index"_a, "n"_a,
        "Inputs (N, n) of the examples with these indices: -1 or +1.");
  m.def("instruction_sets", instruction_sets,
        "Instruction sets compiled in that this machine has, best last.");
  m.def(
      "instruction_set", [] { return kernel_in_use().name; },
      "The instruction set that new networks take.");
  m.def("use_instruction_set", use_instruction_set, "name"_a,
        "Choose the instruction set that new networks take.");
  m.def("fma_peak", python_fma_peak, "seconds"_a,
        "Measured float32 multiply-add peak of one core, in GFLOP/s.");

  nb::class_<Stretch>(m, "Stretch", "What came of a stretch of steps.")
      .def_ro("ends", &Stretch::ends, "The step at which each lap ended.")
      .def_ro("loss", &Stretch::loss, "Mean minibatch loss of each lap.")
      .def_ro("error", &Stretch::error, "Mean minibatch error of each lap.")
      .def_ro("mistakes", &Stretch::mistakes, "Mistakes at the last check if allowed; -1: more.")
      .def_ro("checking_seconds", &Stretch::checking_seconds, "How long the checks took.")
      .def_ro("relevant", &Stretch::relevant, "Largest change on the support, one a record.")
      .def_ro("irrelevant", &Stretch::irrelevant, "Largest change elsewhere, one a record.");

  nb::class_<Network>(m, "Network", "One two-layer network in training.")
      .def("__init__", make_network, "weight"_a, "bias"_a, "output_weight"_a, "output_bias"_a,
           nb::kw_only(), "support"_a, "label_sign"_a = 1, "mix"_a = 0.0, "noise"_a,
           "sample_size"_a, "order"_a, "batch_size"_a, "activation"_a = "relu", "degree"_a = 1,
           "scale"_a = 1.0, "coefficients"_a = std::vector<double>(), "loss"_a,
           "loss_scale"_a = 1.0, "learning_rates"_a, "decays"_a, "decay_in_gradient"_a = true,
           "sample_key"_a, "batches_key"_a, "noise_key"_a, "step"_a = 0)
      .def("advance", advance, "factors"_a,
           "Take one step per schedule factor; returns the steps done.")
      .def("stretch", stretch, "factors"_a, nb::kw_only(), "key"_a, "every"_a, "examples"_a,
           "allowed"_a, "record_every"_a = 0, "seconds"_a,
           "Take one step per factor until a check is not certainly a failure, or time is over.")
      .def("begin_recording", &Network::begin_recording,
           "From now on weights can be compared with the present ones.")
      .def("wrong", wrong, "key"_a, "index"_a, "noisy"_a,
           "Whether each example of stream `key` is misclassified.")
      .def("labels", labels, "key"_a, "index"_a, "noisy"_a, "Labels of examples: -1 or +1.")
      .def("predict", predict, "x"_a, "Outputs on real inputs (N, n).")
      .def("minibatch", minibatch, "step"_a, "Indices of the examples of a step's minibatch.")
      .def("parameters", parameters,
           "Copies of hidden weight, hidden bias, output weight, and output bias.")
      .def("stop", &Network::stop,
           "End a running advance after its present step; evaluations raise Stopped.")
      .def("resume", &Network::resume, "Undo stop().")
      .def_prop_ro("stopped", &Network::stopped)
      .def_prop_ro("step", &Network::step, "Steps taken.")
      .def_prop_ro("loss", &Network::loss, "Mean minibatch loss of the last advance.")
      .def_prop_ro("error", &Network::error, "Mean minibatch error of the last advance.")
      .def_prop_ro("diverged_at", &Network::diverged_at,
                   "The step whose outputs were not finite; -1: none.")
      .def_prop_ro("width", &Network::width)
      .def_prop_ro("n", &Network::inputs)
      .def_prop_ro("instruction_set", &Network::instruction_set);

  nb::class_<PairNetwork>(m, "PairNetwork", "One network on pairs in training.")
      .def("__init__", make_pair_network, "hidden"_a, "output"_a, "table"_a, nb::kw_only(),
           "activation"_a = "power", "degree"_a = 2, "population"_a, "batch_size"_a,
           "learning_rates"_a, "decays"_a = std::vector<double>{0.0, 0.0},
           "decay_in_gradient"_a = true, "penalty"_a = 0.0, "penalty_norm"_a = 2.0,
           "penalty_exponent"_a = 2.0, "sample_key"_a, "step"_a = 0)
      .def("advance", advance_pairs, "factors"_a,
           "Take one step per schedule factor; returns the steps done.")
      .def("outputs", pair_outputs, "pairs"_a, "Outputs (N, order) on pairs a * order + b.")
      .def("wrong", wrong_pairs, "pairs"_a, "Whether each pair is misclassified.")
      .def("minibatch", pair_minibatch, "step"_a, "Numbers of the pairs of a step's minibatch.")
      .def("parameters", pair_parameters, "Copies of hidden and output weights.")
      .def("stop", &PairNetwork::stop,
           "End a running advance after its present step; evaluations raise Stopped.")
      .def("resume", &PairNetwork::resume, "Undo stop().")
      .def_prop_ro("stopped", &PairNetwork::stopped)
      .def_prop_ro("step", &PairNetwork::step, "Steps taken.")
      .def_prop_ro("loss", &PairNetwork::loss, "Mean minibatch loss of the last advance.")
      .def_prop_ro("error", &PairNetwork::error, "Mean minibatch error of the last advance.")
      .def_prop_ro("diverged_at", &PairNetwork::diverged_at,
                   "The step whose outputs were not finite; -1: none.")
      .def_prop_ro("width", &PairNetwork::width)
      .def_prop_ro("order", &PairNetwork::order)
      .def_prop_ro("instruction_set", &PairNetwork::instruction_set);
}
