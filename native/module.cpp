// The Python module elegans._native.
#include "host.hpp"

namespace elegans {

void bind_signs(nb::module_& m);
void bind_pairs(nb::module_& m);
void bind_pair_transformers(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_bits(nb::module_& m);
void bind_dense(nb::module_& m);
void bind_shared(nb::module_& m);
void bind_overlap(nb::module_& m);

namespace {

auto words(const KeyPair& key, const Indices& c0, const Indices& c1) {
  require_length("c1", c1.shape(0), "of c0", rows_of(c0));
  Result<std::uint32_t> w0(c0.shape(0)), w1(c0.shape(0));
  {
    const Work work;
    kernel_in_use().words(key_of(key), c0.data(), c1.data(), rows_of(c0), w0.get(), w1.get());
  }
  return std::make_tuple(w0.array(), w1.array());
}

KeyPair fold(const KeyPair& key, std::uint32_t number) {
  const std::uint32_t zero = 0;
  KeyPair found;
  kernel_in_use().words(key_of(key), &zero, &number, 1, &found.first, &found.second);
  return found;
}

double fma_peak(double seconds) {
  using Clock = std::chrono::steady_clock;
  require_positive("seconds", seconds);
  Work work;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  double best = 0;
  float sink = 0;
  // The best of many short runs: the speed of an undisturbed core.
  do {
    const auto start = Clock::now();
    const double operations = kernel_in_use().multiply_add(200000, &sink);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    best = std::max(best, operations / elapsed.count() * 1e-9);
    work.beat();
  } while (Clock::now() < end);
  return best;
}

}  // namespace
}  // namespace elegans

NB_MODULE(_native, m) {
  using namespace elegans;
  m.doc() = "Networks in training in C++: draws, steps and evaluation.";
  kernel_in_use();  // a wrong ELEGANS_INSTRUCTION_SET is refused at import

  m.def("words", words, "key"_a, "c0"_a, "c1"_a,
        "Threefry-2x32 (20 rounds): the words of counters (c0, c1), each of shape (N,).");
  m.def("fold", fold, "key"_a, "number"_a, "The key of the words at counter (0, number).");
  m.def("instruction_sets", instruction_sets,
        "Instruction sets compiled in that this machine has, best last.");
  m.def(
      "instruction_set", [] { return kernel_in_use().name; },
      "The instruction set that new networks take.\n\n"
      "The best, unless the environment variable ELEGANS_INSTRUCTION_SET or\n"
      "`use_instruction_set` says otherwise.");
  m.def("use_instruction_set", use_instruction_set, "name"_a,
        "Choose the instruction set that new networks take, one of `instruction_sets()`.");
  m.def("fma_peak", fma_peak, "seconds"_a,
        "Measured float32 multiply-add peak of one core, in GFLOP/s, for the instruction set in "
        "use.");
  bind_signs(m);
  bind_pairs(m);
  bind_pair_transformers(m);
  bind_attention(m);
  bind_bits(m);
  bind_dense(m);
  bind_shared(m);
  bind_overlap(m);
}
