// What surrounds long work: arithmetic without subnormals, one thread at a time, signs of life.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "network.hpp"

namespace elegans {

// While it lives, subnormal numbers count as zero: decaying weights end there, and arithmetic on
// them is a hundred times slower than on others.
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

// Two threads in one network would spoil it silently.
class Busy {
 public:
  explicit Busy(std::atomic<bool>& busy) : busy_(busy) {
    if (busy_.exchange(true)) throw std::runtime_error("this network is at work in another thread");
  }
  ~Busy() { busy_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool>& busy_;
};

// Calls the pulse when a twentieth of a second has gone by since the last time.
class Metronome {
 public:
  explicit Metronome(Pulse pulse) : pulse_(pulse) {}
  void beat() {
    const auto now = std::chrono::steady_clock::now();
    if (!pulse_ || now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    pulse_();
  }

 private:
  Pulse pulse_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace elegans
