// An epoch of minibatch descent of a network for tables.
#include "dense_types.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>

#include "host.hpp"

namespace elegans {
namespace {

constexpr std::int64_t most_steps = std::int64_t{1} << 62;

template <class T>
using Table = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

double take_step(const DenseKernel& kernel, Dense<float>& dense, const std::int64_t* index,
                 Size count) {
  return kernel.step_single(dense, index, count);
}
double take_step(const DenseKernel& kernel, Dense<double>& dense, const std::int64_t* index,
                 Size count) {
  return kernel.step_double(dense, index, count);
}

// The layers, and the memory in which a step is computed.
template <class T>
struct Workspace {
  Workspace(const std::vector<Table<T>>& weights, const std::vector<Table<T>>& first,
            const std::vector<Table<T>>& second, Size batch) {
    require(!weights.empty(), "weights must have at least one layer: got none");
    require(first.size() == second.size() && (first.empty() || first.size() == weights.size()),
            "moments must be two per layer, or none: got ", first.size(), " and ", second.size(),
            " for ", weights.size(), " layers");
    std::size_t largest = 0;
    for (std::size_t l = 0; l < weights.size(); l++) {
      const std::size_t outputs = weights[l].shape(0), width = weights[l].shape(1);
      require(outputs >= 1, "a layer must have at least one output: layer ", l, " has none");
      require(width >= 1 && (l == 0 || weights[l - 1].shape(0) + 1 == width),
              "weights of a layer must have one column per output of the previous layer, and one "
              "for the bias: layer ",
              l, " has ", width);
      for (const auto* moments : {&first, &second}) {
        require(moments->empty() ||
                    ((*moments)[l].shape(0) == outputs && (*moments)[l].shape(1) == width),
                "moments must have the shapes of the weights: layer ", l, " has others");
      }
      const auto rows = static_cast<std::size_t>(batch);
      layers.push_back({static_cast<int>(width) - 1, static_cast<int>(outputs), weights[l].data(),
                        first.empty() ? nullptr : first[l].data(),
                        second.empty() ? nullptr : second[l].data(), reserve(rows * width, T(1)),
                        reserve(rows * outputs, T(0))});
      largest = std::max(largest, outputs * width);
    }
    output = reserve(static_cast<std::size_t>(batch) * weights.back().shape(0), T(0));
    gradient = first.empty() ? nullptr : reserve(largest, T(0));
  }
  T* reserve(std::size_t size, T value) {
    memory.emplace_back(size, value);
    return memory.back().data();
  }
  std::vector<std::vector<T>> memory;
  std::vector<DenseLayer<T>> layers;
  T *output, *gradient;
};

template <class T>
std::tuple<double, Size, std::int64_t> epoch(
    const nb::capsule& gemm, const std::vector<Table<T>>& weights,
    const std::vector<Table<T>>& first, const std::vector<Table<T>>& second,
    const Table<const T>& inputs, const Table<const T>& targets,
    const std::optional<Array<T, 1>>& row_weights, double row_weight_scale,
    const Array<std::int64_t, 1>& order, Size batch, const std::string& head, double learning_rate,
    double weight_decay, std::int64_t step, const Array<bool, 1>& stop,
    std::optional<double> seconds) {
  const auto rows = static_cast<Size>(order.shape(0));
  require(batch >= 1, "batch must be at least 1: batch=", batch);
  Workspace<T> space(weights, first, second, std::min(batch, rows));
  require(inputs.shape(1) == weights.front().shape(1), "inputs must have ",
          weights.front().shape(1), " columns, as the first layer's weights: got ",
          inputs.shape(1));
  require(targets.shape(1) == weights.back().shape(0), "targets must have ",
          weights.back().shape(0), " columns, as many as outputs: got ", targets.shape(1));
  require(targets.shape(0) == inputs.shape(0), "targets must have ", inputs.shape(0),
          " rows, as the inputs: got ", targets.shape(0));
  if (row_weights) {
    require(row_weights->shape(0) == inputs.shape(0), "row_weights must have length ",
            inputs.shape(0), ", one per row: got ", row_weights->shape(0));
  }
  require(stop.shape(0) == 1, "stop must have length 1: got ", stop.shape(0));
  require(step >= 0 && step <= most_steps, "step must be in 0 ... 2^62: step=", step);
  const auto last = static_cast<std::int64_t>(inputs.shape(0)) - 1;
  require(std::all_of(order.data(), order.data() + rows,
                      [last](std::int64_t row) { return row >= 0 && row <= last; }),
          "order must be in 0 ... rows-1 with rows=", inputs.shape(0));
  Dense<T> dense{
      reinterpret_cast<Gemm<T>>(gemm.data()),
      static_cast<Size>(space.layers.size()),
      space.layers.data(),
      space.output,
      space.gradient,
      named<Head>(
          "head", head,
          {{"logistic", Head::logistic}, {"softmax", Head::softmax}, {"square", Head::square}}),
      learning_rate,
      weight_decay,
      !first.empty(),
      step,
      inputs.data(),
      targets.data(),
      row_weights ? row_weights->data() : nullptr,
      row_weight_scale};
  const DenseKernel& kernel = *kernel_in_use().dense;
  double total = 0;
  Size begin = 0;
  Work work;
  const auto begun = std::chrono::steady_clock::now();
  for (; begin < rows; begin += batch) {
    const bool* flag = stop.data();
    if (__atomic_load_n(flag, __ATOMIC_RELAXED)) break;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
    if (seconds && spent.count() >= *seconds) break;
    work.beat();
    total += take_step(kernel, dense, order.data() + begin, std::min(batch, rows - begin));
  }
  return {total, std::min(begin, rows), dense.step};
}

}  // namespace

void bind_dense(nb::module_& m) {
  const char* text =
      "An epoch of minibatch descent, in place; returns the sum of losses, rows seen, steps "
      "taken.\n\n"
      "`gemm` is a capsule with the address of BLAS's matrix product, of the dtype of all arrays.\n"
      "The weights of each layer are (fan-out, fan-in + 1), biases last, and `inputs` (rows, "
      "fan-in\n"
      "+ 1) end in a one; `targets` are (rows, outputs). `first` and `second` are AdamW's moments "
      "of\n"
      "the weights' shapes, or empty for plain descent. `order` holds the rows of the epoch, "
      "`batch`\n"
      "of them per step; weights of rows are multiplied by their scale. `head` is logistic, "
      "softmax\n"
      "or square. It ends after a step once `stop[0]` is set or the seconds are over (None: "
      "never),\n"
      "and with the exception of a signal's handler.\n\n"
      "Raises ValueError, with the rule, for arrays that do not fit.";
  const auto define = [&](auto function) {
    m.def("dense_epoch", function, "gemm"_a, "weights"_a.noconvert(), "first"_a.noconvert(),
          "second"_a.noconvert(), nb::kw_only(), "inputs"_a.noconvert(), "targets"_a.noconvert(),
          "row_weights"_a.noconvert().none(), "row_weight_scale"_a, "order"_a.noconvert(),
          "batch"_a, "head"_a, "learning_rate"_a, "weight_decay"_a, "step"_a, "stop"_a.noconvert(),
          "seconds"_a.none(), text);
  };
  define(epoch<float>);
  define(epoch<double>);
}

}  // namespace elegans
