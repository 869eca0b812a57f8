// Chooses the instruction set at run time: one library carries all of them.

#include <atomic>
#include <cstdlib>
#include <string>

#include "cpu/kernels.h"

namespace fhejax {

std::vector<const Kernels*> AvailableKernels() {
  std::vector<const Kernels*> available;
#ifdef FHEJAX_X86
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (avx512 && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx512ifma")) available.push_back(&kIfma);
  if (avx512 && __builtin_cpu_supports("bmi2")) available.push_back(&kAvx512);
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
  if (avx2) available.push_back(&kAvx2);
#endif
  available.push_back(&kPortable);
  return available;
}

namespace {

const Kernels* KernelsNamed(const std::string& name) {
  for (const Kernels* kernels : AvailableKernels())
    if (name == kernels->name) return kernels;
  return nullptr;
}

std::atomic<const Kernels*>& Active() {
  static std::atomic<const Kernels*> active = [] {
    const char* const wanted = std::getenv("FHEJAX_INSTRUCTION_SET");
    const Kernels* const named = wanted ? KernelsNamed(wanted) : nullptr;
    return named ? named : AvailableKernels().front();
  }();
  return active;
}

}  // namespace

const Kernels& ActiveKernels() { return *Active().load(std::memory_order_relaxed); }

bool ChooseKernels(const std::string& name) {
  const Kernels* const kernels = KernelsNamed(name);
  if (kernels) Active() = kernels;
  return kernels != nullptr;
}

}  // namespace fhejax
