// Chooses the instruction set at run time: one library carries all of them.

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
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")) available.push_back(&kAvx2);
#endif
  available.push_back(&kPortable);
  return available;
}

const Kernels& ActiveKernels() {
  static const Kernels* const active = [] {
    const auto available = AvailableKernels();
    const char* wanted = std::getenv("FHEJAX_INSTRUCTION_SET");
    for (const Kernels* kernels : available)
      if (wanted && std::string(wanted) == kernels->name) return kernels;
    return available.front();
  }();
  return *active;
}

}  // namespace fhejax
