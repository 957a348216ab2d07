// What networks on pairs share outside of the kernels: the task, checks and evaluation.
#pragma once

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <optional>

#include "host.hpp"
#include "pair_types.hpp"

namespace elegans {

constexpr Size largest_order = 4096;

using Table = Array<std::int32_t, 2>;
using GivenPairs = std::optional<Array<std::uint32_t, 2>>;

// `Base` is a host whose state has a PairTask.
template <class Base>
class PairHost : public Base {
 public:
  auto outputs(const Indices& pairs) {
    const Size order = this->state_.order;
    Result<float> result(pairs.shape(0), order);
    each_tile(pairs, [&](Size from, Size size) {
      for (Size p = 0; p < size; p++) {
        for (Size c = 0; c < order; c++) {
          result.get()[(from + p) * order + c] = this->state_.output[c * pair_tile + p];
        }
      }
    });
    return result.array();
  }

  auto wrong(const Indices& pairs) {
    Result<bool> result(pairs.shape(0));
    each_tile(pairs, [&](Size from, Size size) {
      for (Size p = 0; p < size; p++) {
        const Size label = this->state_.test.label[p];
        const float own = this->state_.output[label * pair_tile + p];
        bool above = true;  // all others; written so that NaN is wrong
        for (Size c = 0; c < this->state_.order; c++) {
          above = above && (c == label || own > this->state_.output[c * pair_tile + p]);
        }
        result.get()[from + p] = !above;
      }
    });
    return result.array();
  }

 protected:
  using Base::Base;

  // Sets all of the task, its memory included, and how many pairs a step takes.
  void take_task(const Table& table, bool population, Size batch_size, const NamedLoss& loss,
                 const KeyPair& sample_key) {
    auto& s = this->state_;
    const Size order = rows_of(table);
    require_length("a row of table", table.shape(1), "order", order);
    require_between("order", order, 1, largest_order);
    require(batch_size >= 1 && batch_size <= largest_order * largest_order,
            "batch_size must be in 1 ... 2^24: batch_size=", batch_size);
    require(!population || batch_size == order * order,
            "batch_size of the population must be order^2=", order * order,
            ": batch_size=", batch_size);
    s.order = order;
    s.batch = batch_size;
    s.population = population;
    s.loss = named<PairLoss>(
        "loss", loss.first,
        {{"cross-entropy", PairLoss::cross_entropy}, {"one-hot-square", PairLoss::square}});
    require_positive("the factor of the loss", loss.second);
    s.loss_scale = static_cast<float>(loss.second);
    s.sample_key = key_of(sample_key);
    s.table = this->memory_.template allocate<std::int32_t>(order * order);
    for (Size i = 0; i < order * order; i++) {
      const std::int32_t found = table.data()[i];
      require(found >= 0 && found < order, "table must be in 0 ... order-1: ", found,
              " with order=", order);
      s.table[i] = found;
    }
    s.current = make_pairs(s.batch);
    s.test = make_pairs(pair_tile);
    s.fresh = true;
    s.output = this->memory_.template allocate<float>(order * pair_tile);
  }

  // Takes a step per factor, on the given pairs where there are any. `work` is a step's number of
  // products. The results do not depend on how steps are sliced.
  template <class Kernel>
  Size take_pairs(const Kernel& kernel, const Vector& factors, const GivenPairs& pairs,
                  double work) {
    check_draws(this->step() + rows_of(factors));
    if (pairs) check_given(*pairs, rows_of(factors));
    const Size slice = std::max(Size{1}, static_cast<Size>(1e7 / work));  // some milliseconds
    return this->take(rows_of(factors), slice, [&](Size done, Size count) {
      auto& s = this->state_;
      s.given = pairs ? pairs->data() + done * s.batch : nullptr;
      return kernel.advance(s, factors.data() + done, count);
    });
  }

  // Kernels also read the pairs between `count` and the end of the last vectors: whatever they are
  // set to, they must be valid.
  Pairs make_pairs(Size count) {
    const Size capacity = round_up(count, pair_tile);
    return {this->memory_.template allocate<std::uint32_t>(capacity),
            this->memory_.template allocate<std::int32_t>(capacity),
            this->memory_.template allocate<std::int32_t>(capacity),
            this->memory_.template allocate<std::int32_t>(capacity)};
  }

  void check_given(const Array<std::uint32_t, 2>& pairs, Size steps) const {
    require(!this->state_.population, "pairs must not be given with population=True");
    require_length("pairs", pairs.shape(0), "the number of factors", steps);
    require_length("a row of pairs", pairs.shape(1), "batch_size", this->state_.batch);
    check_numbers(pairs.data(), steps * this->state_.batch);
  }

  void check_numbers(const std::uint32_t* number, Size count) const {
    const auto pairs = static_cast<std::uint32_t>(this->state_.order * this->state_.order);
    for (Size i = 0; i < count; i++) {
      require(number[i] < pairs, "pairs must be below order^2=", pairs, ": got ", number[i]);
    }
  }

  // Counters are 32 bits wide: beyond these limits draws would repeat.
  void check_draws(std::int64_t last_step) const {
    const std::int64_t limit = std::int64_t{1} << 32;
    require(last_step <= limit, "step must be at most 2^32: step=", last_step);
    if (this->state_.population) return;
    const std::int64_t examples = last_step * this->state_.batch;
    require(examples <= limit, "online training has 2^32 examples: steps*batch_size=", examples);
  }

  // Calls `function` with the position and the size of each tile, once its outputs are known.
  template <class Function>
  void each_tile(const Indices& number, Function function) {
    check_numbers(number.data(), rows_of(number));
    this->each_block(rows_of(number), pair_tile, [&](Size from, Size size) {
      std::copy_n(number.data() + from, size, this->state_.test.number);
      evaluate(size);
      function(from, size);
    });
  }

  // Outputs on the first `count` pairs of state.test.
  virtual void evaluate(Size count) = 0;

 public:
  virtual ~PairHost() = default;
};

}  // namespace elegans
