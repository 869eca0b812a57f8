// The CUDA language, or in tests its emulator: ffi/tests/emulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#ifdef FHEJAX_EMULATE
#include "emulator/cuda.h"
#else
#include <cuda_runtime.h>
#endif

#include "common/modular.h"

#define FHEJAX_DEVICE static __device__ __forceinline__

namespace fhejax {

constexpr unsigned kThreads = 256;  // of a block at most: what __launch_bounds__ of every kernel says

// The block's shared memory. All of it is dynamic: the launch says how much.
template <typename T>
__device__ __forceinline__ T* SharedMemory() {
#ifdef FHEJAX_EMULATE
  return static_cast<T*>(emulator::SharedMemory());
#else
  extern __shared__ __align__(16) unsigned char shared_memory[];
  return reinterpret_cast<T*>(shared_memory);
#endif
}

template <typename... Parameters, typename... Values>
cudaError_t LaunchKernel([[maybe_unused]] cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                         size_t shared_bytes, const Values&... values) {
  std::tuple<Parameters...> parameters(values...);
#ifdef FHEJAX_EMULATE
  using Launched = std::pair<void (*)(Parameters...), std::tuple<Parameters...>>;
  const Launched launched(kernel, std::move(parameters));
  const auto body = [](const void* data) {
    const auto& [function, values_of_function] = *static_cast<const Launched*>(data);
    std::apply(function, values_of_function);
  };
  emulator::Launch(grid, block, shared_bytes, {body, &launched, sizeof launched});
  return cudaSuccess;
#else
  return std::apply(
      [&](auto&... each) {
        void* arguments[] = {&each...};
        return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments, shared_bytes, stream);
      },
      parameters);
#endif
}

// Lets a kernel have more than the 48 KiB that every launch may ask for.
template <typename... Parameters>
cudaError_t AllowSharedMemory(void (*kernel)(Parameters...), size_t bytes) {
  if (bytes <= 48 << 10) return cudaSuccess;
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

}  // namespace fhejax
