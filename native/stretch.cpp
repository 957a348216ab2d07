// Training from check to check: a network goes on by itself as long as every check is a failure.
//
// A check is exact and no more work than it takes to be certain. It begins with the examples that
// were wrong at the last one, goes on with those that were not looked at for longest, and ends with
// the first mistake too many.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "guards.hpp"
#include "network.hpp"

namespace elegans {
namespace {

using Clock = std::chrono::steady_clock;

// Examples looked at beyond the fewest that could settle a check: a few of last time's mistakes are
// mistakes no more.
constexpr Size margin = 32;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

void check(const Checks& checks, Size record_every, bool can_record) {
  auto refuse = [](const char* rule, Size got) {
    throw std::invalid_argument(rule + std::to_string(got));
  };
  if (checks.every < 1) refuse("every must be at least 1: every=", checks.every);
  if (checks.examples < 0 || checks.examples > (Size{1} << 31)) {
    refuse("examples must be in 0 ... 2^31: examples=", checks.examples);
  }
  if (checks.allowed < 0) refuse("allowed must not be negative: allowed=", checks.allowed);
  if (record_every < 0) refuse("record_every must not be negative: record_every=", record_every);
  if (record_every > 0 && !can_record) {
    refuse("begin_recording must come before a record: record_every=", record_every);
  }
}

// Numbers that are not negative are in the order of their bits; what is not a number comes last.
std::int32_t bits_of(float x) { return std::bit_cast<std::int32_t>(x); }

}  // namespace

Stretch Network::stretch(const float* factors, Size steps, const Checks& checks, Size record_every,
                         double seconds, Pulse pulse) {
  const Busy busy(busy_);
  check(checks, record_every, before_ != nullptr);
  check_limits(step() + steps);
  const FlushSubnormals flush;
  Metronome metronome(pulse);
  const Clock::time_point begun = Clock::now();
  Stretch found;
  double loss = 0;
  double error = 0;
  Size lap = 0;
  auto end_lap = [&] {
    if (lap == 0) return;
    found.ends.push_back(step());
    found.loss.push_back(loss / static_cast<double>(lap));
    found.error.push_back(error / static_cast<double>(lap));
    loss = error = 0;
    lap = 0;
  };
  for (Size done = 0; done < steps;) {
    const Size now = step();
    Size wanted = std::min({slice(), steps - done, checks.every - now % checks.every});
    if (record_every > 0) wanted = std::min(wanted, record_every - now % record_every);
    const Size got = kernel_.advance(state_, factors + done, wanted, &stop_);
    loss += state_.loss_sum;
    error += state_.error_sum;
    lap += got;
    done += got;
    if (got < wanted) break;
    if (record_every > 0 && step() % record_every == 0) record_movement(found);
    if (step() % checks.every == 0) {
      end_lap();
      if (checks.examples > 0) {
        const Clock::time_point checked = Clock::now();
        const Size mistakes = count_mistakes(checks, metronome);
        found.checking_seconds += seconds_since(checked);
        if (mistakes <= checks.allowed) {
          found.mistakes = mistakes;
          break;
        }
      }
    }
    metronome.beat();
    if (seconds_since(begun) > seconds) break;
  }
  end_lap();
  return found;
}

// Returns the exact number if it is allowed, else some number that is not.
Size Network::count_mistakes(const Checks& checks, Metronome& metronome) {
  if (static_cast<Size>(line_.size()) != checks.examples) {
    line_.resize(static_cast<std::size_t>(checks.examples));
    wrong_.resize(line_.size());
    std::iota(line_.begin(), line_.end(), 0u);
    front_ = 0;
  }
  const Examples& test = state_.test;
  Size seen = 0;
  Size mistakes = 0;
  for (Size block = checks.allowed + 1 + margin;
       seen < checks.examples && mistakes <= checks.allowed;
       block = 2 * std::max(block, checks.allowed + 1 - mistakes)) {
    block = std::min({block, example_block, checks.examples - seen});
    for (Size q = 0; q < block; q++) {
      const Size place = front_ + seen + q;
      test.index[q] = line_[static_cast<std::size_t>(
          place < checks.examples ? place : place - checks.examples)];
    }
    if (stopped()) throw Stopped("the evaluation was stopped");
    kernel_.evaluate(state_, checks.key, false, block);
    for (Size q = 0; q < block; q++) {
      // Written so that an output that is not a number is wrong.
      const bool is_wrong = !(test.output[q] * test.label[q] > 0.0f);
      wrong_[static_cast<std::size_t>(seen + q)] = is_wrong;
      mistakes += is_wrong;
    }
    seen += block;
    metronome.beat();
  }
  put_mistakes_first(seen);
  return mistakes;
}

// Of the examples that were looked at, mistakes go to the front of the line and the others to its
// end, which in a ring is just before the front.
void Network::put_mistakes_first(Size seen) {
  const Size size = static_cast<Size>(line_.size());
  auto at = [&](Size offset) -> std::uint32_t& {
    const Size place = front_ + offset;
    return line_[static_cast<std::size_t>(place < size ? place : place - size)];
  };
  std::vector<std::uint32_t> mistakes;
  Size right = 0;
  for (Size i = 0; i < seen; i++) {
    if (wrong_[static_cast<std::size_t>(i)]) {
      mistakes.push_back(at(i));
    } else {
      at(right++) = at(i);
    }
  }
  for (std::size_t i = 0; i < mistakes.size(); i++) at(right + static_cast<Size>(i)) = mistakes[i];
  front_ = (front_ + right) % size;
}

void Network::record_movement(Stretch& found) const {
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

}  // namespace elegans
