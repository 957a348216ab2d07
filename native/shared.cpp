// Training and outputs of networks for tables whose members share a trunk.
#include "shared_types.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <numbers>
#include <optional>
#include <thread>

#include "host.hpp"

namespace elegans {
namespace {

template <class T>
using Row = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Optional = std::optional<Array<T, 1>>;
using Integers = Array<std::int32_t, 1>;

void run_task(const SharedKernel& kernel, Shared<float>& net, SharedPhase phase, Size l, Size t) {
  kernel.run_single(net, phase, l, t);
}
void run_task(const SharedKernel& kernel, Shared<double>& net, SharedPhase phase, Size l, Size t) {
  kernel.run_double(net, phase, l, t);
}

// Threads that take the tasks of each phase together; the caller is one of them. Which thread takes
// a task changes no sum.
class Crew {
 public:
  using Task = void (*)(void* of, Size phase, Size task);
  Crew(int threads, std::vector<Size> tasks, Task task, void* of)
      : threads_(threads), tasks_(std::move(tasks)), task_(task), of_(of) {
    for (int t = 1; t < threads; t++) {
      others_.emplace_back([this, t] {
        const FlushSubnormals flush;
        while (meet(), !ended_) share(t);
      });
    }
  }
  ~Crew() {
    ended_ = true;
    meet();
    for (std::thread& other : others_) other.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  void step() {
    meet();
    share(0);
  }

 private:
  void share(int thread) {
    for (Size phase = 0; phase < static_cast<Size>(tasks_.size()); phase++) {
      const Size count = tasks_[static_cast<std::size_t>(phase)];
      for (Size task = thread; task < count; task += threads_) task_(of_, phase, task);
      meet();
    }
  }
  void meet() {
    if (threads_ == 1) return;
    const unsigned round = round_.load(std::memory_order_acquire);
    if (waiting_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      waiting_.store(0, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      return;
    }
    for (int tries = 0; round_.load(std::memory_order_acquire) == round; tries++) {
      if (tries > 1000) std::this_thread::yield();  // another program may have the other core
    }
  }
  const int threads_;
  const std::vector<Size> tasks_;
  const Task task_;
  void* const of_;
  std::atomic<bool> ended_ = false;
  std::atomic<int> waiting_ = 0;
  std::atomic<unsigned> round_ = 0;
  std::vector<std::thread> others_;
};

// What does not change from epoch to epoch: sizes and columns.
struct Layout {
  Size members, columns, heads, embedding_rows;
  std::vector<Size> widths, weights, biases;
  std::vector<LookUp> look_ups;
  std::vector<std::int32_t> dense_columns;
  Size statics, embedded, table_rows = 0;
  Size front, head_weight, embedding, head_bias, factor, decayed, size;

  Layout(const std::vector<Size>& hidden, Size member_count, Size column_count, Size head_count,
         const Array<std::int32_t, 2>& looks, const Integers& static_columns,
         const Integers& embedded_columns, Size levels)
      : members(member_count), columns(column_count), heads(head_count), embedding_rows(levels) {
    require(members >= 1 && members <= 4096, "members must be in 1 ... 4096: members=", members);
    require(columns >= 1 && columns <= INT32_MAX, "columns must be in 1 ... 2^31-1: ", columns);
    require(heads >= 1 && heads <= (1 << 24), "heads must be in 1 ... 2^24: heads=", heads);
    require(levels >= 0 && levels <= INT32_MAX, "levels must be in 0 ... 2^31-1: levels=", levels);
    require(!hidden.empty() && hidden.size() <= 100, "widths must be 1 to 100 layers");
    require(looks.shape(1) == 3, "look_ups must have rows (column, bins, levels)");
    for (const Size width : hidden) {
      require(width >= 1 && width <= (1 << 20) && width % shared_lanes == 0,
              "widths must be multiples of ", shared_lanes, " up to 2^20: got ", width);
      widths.push_back(width);
    }
    Size rows = 0;
    const auto check_column = [this](std::int32_t column) {
      require(column >= 0 && column < columns, "a column must be in 0 ... columns-1: ", column);
    };
    for (std::size_t f = 0; f < looks.shape(0); f++) {
      const std::int32_t* entry = looks.data() + 3 * f;
      check_column(entry[0]);
      require(entry[1] >= 0 && entry[2] >= 0 && entry[1] < no_level && entry[2] < no_level &&
                  entry[1] + entry[2] >= 1 && entry[1] + entry[2] < no_level,
              "a look-up must have 1 to 65534 inputs: ", entry[1], " bins, ", entry[2], " levels");
      look_ups.push_back({entry[0], entry[1], entry[2], rows});
      rows += entry[1] + entry[2];
      table_rows = std::max(table_rows, Size{entry[1]} + entry[2]);
    }
    for (std::size_t d = 0; d < static_columns.shape(0); d++) {
      check_column(static_columns.data()[d]);
      dense_columns.push_back(static_columns.data()[d]);
    }
    for (std::size_t e = 0; e < embedded_columns.shape(0); e++) {
      check_column(embedded_columns.data()[e]);
      dense_columns.insert(dense_columns.end(), embedding_size, embedded_columns.data()[e]);
    }
    statics = rows_of(static_columns);
    embedded = rows_of(embedded_columns);
    const auto dense = static_cast<Size>(dense_columns.size());
    front = rows * widths[0];
    Size end = front + dense * widths[0];
    for (std::size_t l = 0; l < widths.size(); l++) {
      weights.push_back(end);
      if (l > 0) end += widths[l] * widths[l - 1];
    }
    head_weight = end;
    embedding = head_weight + members * heads * widths.back();
    decayed = end = embedding + levels * embedding_size;
    for (const Size width : widths) {
      biases.push_back(end);
      end += width;
    }
    head_bias = end;
    factor = head_bias + members * heads;
    size = factor + members * columns;
  }
};

// A network, its rows, and the memory of steps of `batch` rows of each member.
template <class T>
class SharedHost {
 public:
  SharedHost(const nb::capsule& gemm, const Layout& layout, const Row<T>& values,
             const Array<std::uint16_t, 2>& codes, const Array<T, 2>& positions,
             const Array<T, 2>& inputs, const Array<std::int32_t, 2>& levels,
             const std::string& head)
      : layout_(layout) {
    require_length("values", values.shape(0), "size", layout.size);
    const auto looks = static_cast<Size>(layout.look_ups.size());
    require_length("a row of codes", codes.shape(1), "look_ups", looks);
    require_length("a row of positions", positions.shape(1), "look_ups", looks);
    require_length("a row of inputs", inputs.shape(1), "static columns", layout.statics);
    require_length("a row of levels", levels.shape(1), "embedded columns", layout.embedded);
    net.row_count = rows_of(inputs);
    for (const auto count : {codes.shape(0), positions.shape(0), levels.shape(0)}) {
      require_length("codes, positions and levels", count, "rows", net.row_count);
    }
    for (Size i = 0; i < net.row_count * looks; i++) {
      const LookUp& look_up = layout.look_ups[static_cast<std::size_t>(i % looks)];
      require(codes.data()[i] == no_level || codes.data()[i] < look_up.bins + look_up.levels,
              "a code must be below its look-up's inputs: ", codes.data()[i]);
    }
    for (Size i = 0; i < net.row_count * layout.embedded; i++) {
      require(levels.data()[i] >= 0 && levels.data()[i] < layout.embedding_rows,
              "levels must be in 0 ... levels-1: ", levels.data()[i]);
    }
    net.gemm = reinterpret_cast<Gemm<T>>(gemm.data());
    net.members = layout.members;
    net.columns = layout.columns;
    net.layers = static_cast<Size>(layout.widths.size());
    net.heads = layout.heads;
    net.look_ups = looks;
    net.statics = layout.statics;
    net.embedded = layout.embedded;
    net.dense = static_cast<Size>(layout.dense_columns.size());
    net.width = layout.widths.data();
    net.look_up = layout.look_ups.data();
    net.dense_column = layout.dense_columns.data();
    net.table_rows = layout.table_rows;
    net.head = named<Head>(
        "head", head,
        {{"logistic", Head::logistic}, {"softmax", Head::softmax}, {"square", Head::square}});
    require(net.head != Head::logistic || net.heads == 1,
            "logistic must have one output: ", net.heads);
    net.value = values.data();
    net.size = layout.size;
    net.decayed = layout.decayed;
    net.front = layout.front;
    net.head_weight = layout.head_weight;
    net.embedding = layout.embedding;
    net.head_bias = layout.head_bias;
    net.factor = layout.factor;
    net.weight = layout.weights.data();
    net.bias = layout.biases.data();
    net.code = codes.data();
    net.position = positions.data();
    net.input = inputs.data();
    net.level = levels.data();
  }

  void reserve(Size batch, bool trains) {
    net.batch = batch;
    const Size count = net.members * batch, chunks = chunks_of(0);
    require(count <= (1 << 24), "members times batch must be at most 2^24: ", count);
    net.batch_code = memory_.allocate<std::uint16_t>(net.look_ups * count);
    net.batch_position = memory_.allocate<T>(net.look_ups * count);
    for (T** into : {&net.raw, &net.scaled, &net.raw_gradient}) {
      *into = memory_.allocate<T>(count * net.dense);
    }
    for (const Size width : layout_.widths) {
      activation_.push_back(memory_.allocate<T>(count * width));
      delta_.push_back(memory_.allocate<T>(trains ? count * width : 0));
    }
    net.activation = activation_.data();
    net.delta = delta_.data();
    net.output = memory_.allocate<T>(count * net.heads);
    net.output_gradient = memory_.allocate<T>(count * net.heads);
    net.scratch = memory_.allocate<T>(chunks * 3 * net.table_rows * shared_chunk);
    net.factor_partial = memory_.allocate<T>(chunks * net.look_ups * net.members);
    net.norm = memory_.allocate<double>(norm_parts);
    net.loss = memory_.allocate<double>(net.members);
    if (trains) net.gradient = memory_.allocate<T>(net.size);
  }

  void add(SharedPhase phase, Size layer, Size tasks) {
    phases_.push_back({phase, layer});
    tasks_.push_back(tasks);
  }
  void add_forward() {
    add(SharedPhase::gather, 0, net.members);
    add(SharedPhase::first, 0, chunks_of(0));
    for (Size l = 1; l < net.layers; l++) add(SharedPhase::hidden, l, chunks_of(l));
  }
  void add_backward() {
    add(SharedPhase::losses, 0, net.members);
    for (Size l = net.layers - 1; l > 0; l--) {
      add(SharedPhase::backward, l, chunks_of(l) + chunks_of(l - 1));
    }
    add(SharedPhase::first_backward, 0, chunks_of(0) + (net.dense > 0 ? net.members : 0));
    add(SharedPhase::reduction, 0, net.members + 1);
  }
  auto crew(int threads) {
    require(threads >= 1 && threads <= 1024, "threads must be in 1 ... 1024: threads=", threads);
    const Size most = *std::max_element(tasks_.begin(), tasks_.end());
    return std::make_unique<Crew>(
        static_cast<int>(std::min(Size{threads}, most)), tasks_,
        [](void* of, Size phase, Size task) {
          auto& self = *static_cast<SharedHost*>(of);
          const auto& [kind, layer] = self.phases_[static_cast<std::size_t>(phase)];
          run_task(*self.kernel_, self.net, kind, layer, task);
        },
        this);
  }

  Shared<T> net{};

 private:
  Size chunks_of(Size layer) const {
    return (layout_.widths[static_cast<std::size_t>(layer)] + shared_chunk - 1) / shared_chunk;
  }
  const Layout& layout_;
  const SharedKernel* kernel_ = kernel_in_use().shared;
  Memory memory_;
  std::vector<T*> activation_, delta_;
  std::vector<std::pair<SharedPhase, Size>> phases_;
  std::vector<Size> tasks_;
};

// Four cosine cycles of doubling length, after RealMLP (Holzmüller et al., 2024); or constant.
double rate_at(double time, double peak, bool cycles) {
  if (!cycles) return peak;
  return peak * (1 - std::cos(2 * std::numbers::pi * std::log2(1 + 15 * std::min(time, 1.0)))) / 2;
}

struct Descent {
  double learning_rate, weight_decay, clip, dropout;
  bool adaptive, cycles;
  std::int64_t step;                              // steps taken before
  std::pair<std::int64_t, std::int64_t> cycle;    // the training's first step, and its steps
  std::optional<std::pair<double, double>> time;  // spent before, and the limit
};

template <class T>
void take_rows(SharedHost<T>& host, const Array<T, 2>& targets, const Optional<T>& row_weights) {
  auto& net = host.net;
  require_length("targets", targets.shape(0), "rows", net.row_count);
  net.target_count = net.head == Head::softmax ? 1 : net.heads;
  require_length("a row of targets", targets.shape(1), "outputs", net.target_count);
  if (net.head == Head::softmax) {
    require(std::all_of(targets.data(), targets.data() + net.row_count,
                        [&](T c) { return c >= 0 && c < static_cast<T>(net.heads); }),
            "targets must be classes 0 ... heads-1");
  }
  if (row_weights) require_length("row_weights", row_weights->shape(0), "rows", net.row_count);
  net.target = targets.data();
  net.row_weight = row_weights ? row_weights->data() : nullptr;
}

template <class T>
auto train_epoch(const nb::capsule& gemm, const Layout& layout, const Row<T>& values,
                 const Row<T>& first, const Row<T>& second, const Array<std::uint16_t, 2>& codes,
                 const Array<T, 2>& positions, const Array<T, 2>& inputs,
                 const Array<std::int32_t, 2>& levels, const Array<T, 2>& targets,
                 const Optional<T>& row_weights, const Array<std::int32_t, 2>& order, Size batch,
                 const std::string& head, const Descent& descent, const KeyPair& dropout_key,
                 const Array<bool, 1>& stop, int threads) {
  SharedHost<T> host(gemm, layout, values, codes, positions, inputs, levels, head);
  auto& net = host.net;
  take_rows(host, targets, row_weights);
  const Size rows = net.row_count;
  require(batch >= 1, "batch must be at least 1: batch=", batch);
  require_length("order", order.shape(0), "members", net.members);
  require_length("a row of order", order.shape(1), "rows", rows);
  require(std::all_of(order.data(), order.data() + order.size(),
                      [rows](std::int32_t row) { return row >= 0 && row < rows; }),
          "order must be in 0 ... rows-1 with rows=", rows);
  require(stop.shape(0) == 1, "stop must have length 1: got ", stop.shape(0));
  require(descent.dropout >= 0 && descent.dropout < 1,
          "dropout must be in [0, 1): dropout=", descent.dropout);
  require_positive("clip", descent.clip);
  require(descent.step >= 0 && descent.step < (std::int64_t{1} << 32) && descent.cycle.first >= 0 &&
              descent.cycle.second >= 1,
          "step must be in 0 ... 2^32-1: step=", descent.step);
  if (descent.adaptive) {
    require_length("first", first.shape(0), "size", net.size);
    require_length("second", second.shape(0), "size", net.size);
  }
  net.first = first.data();
  net.second = second.data();
  net.order = order.data();
  net.adaptive = descent.adaptive;
  net.decay = descent.weight_decay;
  net.clip = descent.clip;
  net.dropout = descent.dropout;
  net.dropout_key = key_of(dropout_key);
  net.step = static_cast<std::uint64_t>(descent.step);
  // Steps of equal size, up to one row.
  const Size steps = rows / batch + (rows % batch > 0);
  std::vector<double> total(static_cast<std::size_t>(net.members), 0.0);
  Size step = 0, seen = 0;
  if (rows > 0) {
    host.reserve((rows + steps - 1) / steps, true);
    host.add_forward();
    host.add_backward();
    host.add(SharedPhase::norm, 0, norm_parts);
    host.add(SharedPhase::update, 0, norm_parts);
    Work work;
    const auto begun = std::chrono::steady_clock::now();
    const auto crew = host.crew(threads);
    for (; step < steps; step++) {
      const bool* flag = stop.data();
      if (__atomic_load_n(flag, __ATOMIC_RELAXED)) break;
      const auto taken = static_cast<std::int64_t>(net.step) - descent.cycle.first;
      double time = static_cast<double>(taken) / static_cast<double>(descent.cycle.second);
      if (descent.time) {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
        const double elapsed = descent.time->first + spent.count();
        if (elapsed >= descent.time->second) break;
        time = std::max(time, elapsed / descent.time->second);
      }
      net.rate = rate_at(time, descent.learning_rate, descent.cycles);
      net.begin = rows * step / steps;
      net.batch = rows * (step + 1) / steps - net.begin;
      work.beat();
      crew->step();
      net.step++;
      seen += net.batch;
      for (std::size_t m = 0; m < total.size(); m++) total[m] += net.loss[m];
    }
  }
  return std::make_tuple(total, seen, static_cast<std::int64_t>(net.step), net.rate);
}

template <class T>
auto outputs(const nb::capsule& gemm, const Layout& layout, const Row<T>& values,
             const Array<std::uint16_t, 2>& codes, const Array<T, 2>& positions,
             const Array<T, 2>& inputs, const Array<std::int32_t, 2>& levels) {
  constexpr Size block = 64;
  SharedHost<T> host(gemm, layout, values, codes, positions, inputs, levels,
                     layout.heads == 1 ? "logistic" : "softmax");
  auto& net = host.net;
  const Size rows = net.row_count;
  Result<T> result(net.members, rows, net.heads);
  if (rows > 0) {
    host.reserve(block, false);
    host.add_forward();
    host.add(SharedPhase::outputs, 0, net.members);
    Work work;
    const auto crew = host.crew(1);
    for (Size from = 0; from < rows; from += block) {
      net.begin = from;
      work.beat();
      crew->step();
      for (Size m = 0; m < net.members; m++) {
        std::copy_n(net.output + m * block * net.heads, std::min(block, rows - from) * net.heads,
                    result.get() + (m * rows + from) * net.heads);
      }
    }
  }
  return result.array();
}

// The gradient of the mean loss over all rows, the same for all members, without dropout.
template <class T>
auto gradient(const nb::capsule& gemm, const Layout& layout, const Row<T>& values,
              const Array<std::uint16_t, 2>& codes, const Array<T, 2>& positions,
              const Array<T, 2>& inputs, const Array<std::int32_t, 2>& levels,
              const Array<T, 2>& targets, const Optional<T>& row_weights, const std::string& head) {
  SharedHost<T> host(gemm, layout, values, codes, positions, inputs, levels, head);
  auto& net = host.net;
  take_rows(host, targets, row_weights);
  Result<T> result(net.size);
  require(net.row_count >= 1, "rows must be at least 1: rows=", net.row_count);
  host.reserve(net.row_count, true);
  host.add_forward();
  host.add_backward();
  {
    const Work work;
    host.crew(1)->step();
  }
  std::copy_n(net.gradient, net.size, result.get());
  double loss = 0;
  for (Size m = 0; m < net.members; m++) loss += net.loss[m];
  return std::make_tuple(loss / static_cast<double>(net.members * net.row_count), result.array());
}

template <class T>
void define(nb::module_& m) {
  m.def(
      "shared_epoch", train_epoch<T>, "gemm"_a, "layout"_a, "values"_a.noconvert(),
      "first"_a.noconvert(), "second"_a.noconvert(), nb::kw_only(), "codes"_a.noconvert(),
      "positions"_a.noconvert(), "inputs"_a.noconvert(), "levels"_a.noconvert(),
      "targets"_a.noconvert(), "row_weights"_a.noconvert().none(), "order"_a.noconvert(), "batch"_a,
      "head"_a, "descent"_a, "dropout_key"_a, "stop"_a.noconvert(), "threads"_a,
      "An epoch of descent, in place; returns each member's sum of losses, the rows it has seen,\n"
      "steps taken, and the last learning rate.\n\n"
      "`gemm` is a capsule with the address of BLAS's matrix product, of the dtype of all arrays;\n"
      "`order` (members, rows) holds the rows of the epoch, `batch` of them per step and member.\n"
      "It ends after a step once `stop[0]` is set or the time is over, and with the exception of\n"
      "a signal's handler.\n\n"
      "Raises ValueError, with the rule, for arrays that do not fit.");
  m.def("shared_outputs", outputs<T>, "gemm"_a, "layout"_a, "values"_a.noconvert(), nb::kw_only(),
        "codes"_a.noconvert(), "positions"_a.noconvert(), "inputs"_a.noconvert(),
        "levels"_a.noconvert(), "Outputs of each member: (members, rows, heads).");
  m.def("shared_gradient", gradient<T>, "gemm"_a, "layout"_a, "values"_a.noconvert(), nb::kw_only(),
        "codes"_a.noconvert(), "positions"_a.noconvert(), "inputs"_a.noconvert(),
        "levels"_a.noconvert(), "targets"_a.noconvert(), "row_weights"_a.noconvert().none(),
        "head"_a,
        "The mean over members and rows of the weighted loss, and its gradient by all values.");
}

}  // namespace

void bind_shared(nb::module_& m) {
  nb::class_<Layout>(m, "SharedLayout",
                     "The sizes and columns of networks that share a trunk, and where their values "
                     "lie in one row.")
      .def(nb::init<const std::vector<Size>&, Size, Size, Size, const Array<std::int32_t, 2>&,
                    const Integers&, const Integers&, Size>(),
           "widths"_a, "members"_a, "columns"_a, "heads"_a, nb::kw_only(), "look_ups"_a,
           "static_columns"_a, "embedded_columns"_a, "levels"_a)
      .def_ro("size", &Layout::size, "How many values there are.")
      .def_ro("decayed", &Layout::decayed, "How many of them, the first ones, have weight decay.");
  nb::class_<Descent>(m, "SharedDescent", "How networks that share a trunk are trained.")
      .def(
          "__init__",
          [](Descent* self, double learning_rate, double weight_decay, double clip, double dropout,
             bool adaptive, bool cycles, std::int64_t step,
             std::pair<std::int64_t, std::int64_t> cycle,
             std::optional<std::pair<double, double>> time) {
            new (self) Descent{learning_rate, weight_decay, clip,  dropout, adaptive,
                               cycles,        step,         cycle, time};
          },
          nb::kw_only(), "learning_rate"_a, "weight_decay"_a, "clip"_a, "dropout"_a, "adaptive"_a,
          "cycles"_a, "step"_a, "cycle"_a, "time"_a.none());
  m.def("learning_rate", rate_at, "time"_a, "peak"_a, "cycles"_a,
        "The learning rate at a fraction of the training.");
  define<float>(m);
  define<double>(m);
}

}  // namespace elegans
