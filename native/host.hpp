// The common parts of the module's networks: memory, checks of arguments, long work outside the
// interpreter lock, the loop over steps, and the bindings that all networks share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "descent_types.hpp"
#include "dispatch.hpp"

namespace elegans {

namespace nb = nanobind;
using namespace nb::literals;

template <class T, std::size_t dimensions>
using Array = nb::ndarray<const T, nb::ndim<dimensions>, nb::c_contig, nb::device::cpu>;
using Vector = Array<float, 1>;
using Matrix = Array<float, 2>;
using Indices = Array<std::uint32_t, 1>;
using KeyPair = std::pair<std::uint32_t, std::uint32_t>;
using NamedLoss = std::pair<std::string, double>;  // and its factor

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

inline Key key_of(const KeyPair& pair) { return {pair.first, pair.second}; }
template <class T>
Size rows_of(const T& array) {
  return static_cast<Size>(array.shape(0));
}
inline Size round_up(Size x, Size unit) { return (x + unit - 1) / unit * unit; }

template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream message;
  (message << ... << parts);
  throw std::invalid_argument(message.str());
}

inline void require_between(const char* name, std::int64_t value, std::int64_t least,
                            std::int64_t most) {
  require(value >= least && value <= most, name, " must be in ", least, " ... ", most, ": ", name,
          "=", value);
}
inline void require_positive(const char* name, double value) {
  require(value > 0 && std::isfinite(value), name, " must be positive: ", name, "=", value);
}
inline void require_finite(const char* name, const std::vector<double>& values) {
  for (const double value : values) {
    require(std::isfinite(value), name, " must be finite: got ", value);
  }
}
inline void require_length(const char* name, std::size_t got, const char* what, Size wanted) {
  require(got == static_cast<std::size_t>(wanted), name, " must have length ", what, "=", wanted,
          ": got ", got);
}

template <class T>
using Names = std::initializer_list<std::pair<const char*, T>>;

template <class T, class Known = Names<T>>
T named(const char* what, const std::string& name, const Known& known) {
  std::string list;
  for (const auto& [text, value] : known) {
    if (name == text) return value;
    list += (list.empty() ? "" : ", ") + std::string(text);
  }
  require(false, what, " must be one of ", list, ": got '", name, "'");
  return {};
}

inline Loss loss_of(const NamedLoss& loss) {
  require_positive("loss_scale", loss.second);
  return {named<LossKind>("loss", loss.first,
                          {{"hinge", LossKind::hinge},
                           {"square", LossKind::square},
                           {"logistic", LossKind::logistic},
                           {"correlation", LossKind::correlation}}),
          static_cast<float>(loss.second)};
}

// Arrays that live as long as their owner: initially zero, and aligned for the widest vectors.
class Memory {
 public:
  template <class T>
  T* allocate(Size count) {
    const auto bytes = static_cast<std::size_t>(
        round_up(std::max(count, Size{1}) * static_cast<Size>(sizeof(T)), alignment));
    void* memory = ::operator new(bytes, std::align_val_t{alignment});
    blocks_.emplace_back(memory, release);
    std::memset(memory, 0, bytes);
    return static_cast<T*>(memory);
  }

 private:
  static constexpr Size alignment = 64;
  static void release(void* memory) { ::operator delete(memory, std::align_val_t{alignment}); }
  std::vector<std::unique_ptr<void, void (*)(void*)>> blocks_;
};

// A new array for Python, not initialised.
template <class T>
struct Result {
  template <class... Extents>
  explicit Result(Extents... extents) : shape{static_cast<std::size_t>(extents)...} {
    std::size_t size = 1;
    for (const std::size_t extent : shape) size *= extent;
    data = std::make_unique_for_overwrite<T[]>(size);
  }
  T* get() const { return data.get(); }
  nb::ndarray<nb::numpy, T> array() {
    T* memory = data.release();
    nb::capsule owner(memory, [](void* p) noexcept { delete[] static_cast<T*>(p); });
    return nb::ndarray<nb::numpy, T>(memory, shape.size(), shape.data(), owner);
  }
  std::vector<std::size_t> shape;
  std::unique_ptr<T[]> data;
};

// While it lives, subnormal numbers count as zero: decaying weights reach that range, and
// arithmetic on them is a hundred times slower than on others.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  FlushSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
  ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#elif defined(__aarch64__)
  FlushSubnormals() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ | (std::uint64_t{1} << 24)));
  }
  ~FlushSubnormals() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  std::uint64_t before_;
#endif
};

// Surrounds long work: the interpreter lock is released, and subnormal numbers count as zero.
class Work {
 public:
  // Called often, so that Ctrl-C in the main thread ends the work within a twentieth of a second.
  void beat() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    const nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  const nb::gil_scoped_release release_;
  const FlushSubnormals flush_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Two threads in one network would corrupt it silently.
class Busy {
 public:
  explicit Busy(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true)) throw std::runtime_error("this network is in use by another thread");
  }
  ~Busy() { busy_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool>& busy_;
};

// A network in training: memory, checks and bookkeeping around a kernel.
template <class State>
class Host {
 public:
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::int64_t step() const { return static_cast<std::int64_t>(state_.step); }
  std::int64_t diverged_at() const { return state_.diverged_at; }
  // Means over the steps of the last advance; not a number if there were none.
  double loss() const { return loss_; }
  double error() const { return error_; }

 protected:
  Host() : kernel_(kernel_in_use()) {
    state_.lanes = kernel_.lanes;
    state_.diverged_at = -1;
  }

  // Takes steps in slices of limited size, until all are taken or the network diverges:
  // `advance` takes `count` steps after the first `done` ones, and returns how many it took.
  template <class Advance>
  Size take(Size steps, Size slice, Advance advance) {
    const Busy busy(busy_);
    Work work;
    double loss = 0, error = 0;
    loss_ = error_ = not_a_number;
    Size done = 0;
    while (done < steps && state_.diverged_at < 0) {
      state_.loss_sum = state_.error_sum = 0;
      done += advance(done, std::min(slice, steps - done));
      loss += state_.loss_sum;
      error += state_.error_sum;
      if (done > 0) {
        loss_ = loss / static_cast<double>(done);
        error_ = error / static_cast<double>(done);
      }
      work.beat();
    }
    return done;
  }

  // Calls `evaluate` for blocks of examples, with the first example and the size of each block.
  template <class Evaluate>
  void each_block(Size count, Size block, Evaluate evaluate) {
    const Busy busy(busy_);
    Work work;
    for (Size first = 0; first < count; first += block) {
      evaluate(first, std::min(block, count - first));
      work.beat();
    }
  }

  const Kernel& kernel_;
  State state_{};
  Memory memory_;
  double loss_ = not_a_number, error_ = not_a_number;
  std::atomic<bool> busy_ = false;
};

// Sets the optimiser and its constants; the moments themselves are allocated with the parameters.
inline void set_optimiser(Moments& moments, const std::string& optimiser, double beta1,
                          double beta2, double epsilon) {
  for (const double beta : {beta1, beta2}) {
    require(beta >= 0 && beta < 1, "betas must be in [0, 1): got ", beta);
  }
  require_positive("epsilon", epsilon);
  moments.optimiser = named<Optimiser>("optimiser", optimiser,
                                       {{"adam", Optimiser::adam},
                                        {"sgd", Optimiser::sgd},
                                        {"momentum", Optimiser::momentum},
                                        {"nesterov", Optimiser::nesterov}});
  moments.keeps = moments.optimiser != Optimiser::sgd;
  moments.beta1 = beta1;
  moments.beta2 = beta2;
  moments.epsilon = epsilon;
}

// A network that is given its examples, and whose parameters are one row, each with its own
// learning rate and weight decay.
template <class State>
class RowHost : public Host<State> {
 public:
  auto parameters() {
    const Busy busy(this->busy_);
    Result<float> result(this->state_.size);
    std::copy_n(this->state_.parameter, this->state_.size, result.get());
    return result.array();
  }

 protected:
  RowHost(Size batch, const std::string& optimiser, bool decay_in_gradient, double beta1,
          double beta2, double epsilon) {
    require(batch >= 1, "batch_size must be at least 1: batch_size=", batch);
    State& s = this->state_;
    s.batch = batch;
    s.decay_in_gradient = decay_in_gradient;
    set_optimiser(s, optimiser, beta1, beta2, epsilon);
  }

  float* reserve(Size count) {
    return this->memory_.template allocate<float>(round_up(count, this->state_.lanes));
  }

  // Call this once the size is known.
  void take_row(const Vector& parameters, const Vector& learning_rates, const Vector& decays) {
    State& s = this->state_;
    const auto copy = [&](const char* name, const Vector& given) {
      require(rows_of(given) == s.size, name, " must have length ", s.size, ": got ",
              given.shape(0));
      float* own = reserve(s.size);
      std::copy_n(given.data(), s.size, own);
      return own;
    };
    s.parameter = copy("parameters", parameters);
    s.learning_rate = copy("learning_rates", learning_rates);
    s.decay = copy("decays", decays);
    s.first = reserve(s.size);
    s.second = reserve(s.size);
  }
};

// The class of a network, with the members that all networks have.
template <class Network>
nb::class_<Network> bind_network(nb::module_& m, const char* name, const char* text) {
  return nb::class_<Network>(m, name, text)
      .def("parameters", &Network::parameters,
           "Copies of all parameters, as the constructor takes them.")
      .def_prop_ro("step", &Network::step, "Steps taken.")
      .def_prop_ro(
          "loss", &Network::loss,
          "Mean minibatch loss over the steps of the last advance; NaN if there were none.")
      .def_prop_ro("error", &Network::error, "The same of the share of examples that were wrong.")
      .def_prop_ro(
          "diverged_at", &Network::diverged_at,
          "The step whose outputs were not all finite, where the network stops; -1: none.");
}

}  // namespace elegans
