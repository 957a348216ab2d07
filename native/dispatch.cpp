#include "dispatch.hpp"

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace elegans {

namespace baseline {
extern const Kernel kernel;
}
namespace avx2 {
extern const Kernel kernel;
}
namespace avx512 {
extern const Kernel kernel;
}
namespace avx512_popcount {
extern const Kernel kernel;
}

namespace {

std::vector<const Kernel*> supported() {
  std::vector<const Kernel*> kernels{&baseline::kernel};
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("popcnt");
  if (has) kernels.push_back(&avx2::kernel);
  has = has && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (has) kernels.push_back(&avx512::kernel);
  has = has && __builtin_cpu_supports("avx512vpopcntdq");
  if (has) kernels.push_back(&avx512_popcount::kernel);
#endif
  return kernels;
}

const Kernel& find(const std::string& name, const std::string& what) {
  std::string known;
  for (const Kernel* kernel : supported()) {
    if (name == kernel->name) return *kernel;
    known += (known.empty() ? "" : ", ") + std::string(kernel->name);
  }
  throw std::invalid_argument(what + " must be one of " + known + ": got '" + name + "'");
}

std::atomic<const Kernel*> chosen{nullptr};

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Kernel* kernel : supported()) names.emplace_back(kernel->name);
  return names;
}

const Kernel& kernel_in_use() {
  if (!chosen) {
    const char* name = std::getenv("ELEGANS_INSTRUCTION_SET");
    chosen = name && *name ? &find(name, "ELEGANS_INSTRUCTION_SET") : supported().back();
  }
  return *chosen;
}

void use_instruction_set(const std::string& name) { chosen = &find(name, "instruction set"); }

}  // namespace elegans
