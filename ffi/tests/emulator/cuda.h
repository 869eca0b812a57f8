// The part of the CUDA language and runtime that fhejax's kernels use, for g++ and the emulator.
//
// All shared memory is dynamic (device.h), so that its bounds are known. `__constant__` arrays must be const. Names that
// a kernel needs and that are missing belong here; names with no meaning in C++ (inline PTX, asynchronous copies) do not.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/emulator.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define threadIdx (::fhejax::emulator::ThreadIndex())
#define blockIdx (::fhejax::emulator::BlockIndex())
#define blockDim (::fhejax::emulator::BlockExtent())
#define gridDim (::fhejax::emulator::GridExtent())

using dim3 = fhejax::emulator::Extent;

// ---- barriers and warps --------------------------------------------------------------------------------------

#define FHEJAX_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(FHEJAX_SITE) { fhejax::emulator::BlockBarrier({file, line}); }
inline void __syncwarp(unsigned mask = ~0u, FHEJAX_SITE) { fhejax::emulator::WarpBarrier(mask, {file, line}); }

namespace fhejax::emulator {

template <typename T>
T ShuffleValue(unsigned mask, T value, int source_lane, Site site) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = Shuffle(mask, bits, source_lane, site);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace fhejax::emulator

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, FHEJAX_SITE) {
  const int first = fhejax::emulator::Lane() & -width;
  return fhejax::emulator::ShuffleValue(mask, value, first + (source & (width - 1)), {file, line});
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, FHEJAX_SITE) {
  const int lane = fhejax::emulator::Lane(), source = lane ^ bits;
  return fhejax::emulator::ShuffleValue(mask, value, source < (lane & -width) + width ? source : lane, {file, line});
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, FHEJAX_SITE) {
  const int lane = fhejax::emulator::Lane(), source = lane - static_cast<int>(by);
  return fhejax::emulator::ShuffleValue(mask, value, source >= (lane & -width) ? source : lane, {file, line});
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, FHEJAX_SITE) {
  const int lane = fhejax::emulator::Lane(), source = lane + static_cast<int>(by);
  return fhejax::emulator::ShuffleValue(mask, value, source < (lane & -width) + width ? source : lane, {file, line});
}

// ---- atomics: the overloads of CUDA, which takes no uint64_t* ------------------------------------------------------

#define FHEJAX_ATOMIC_ADD(T)                                                         \
  __attribute__((noinline, no_sanitize("thread"))) inline T atomicAdd(T* to, T value) { \
    fhejax::emulator::OnAtomic(to, sizeof(T), __builtin_return_address(0));          \
    const T before = *to;                                                            \
    *to = before + value;                                                            \
    return before;                                                                   \
  }
FHEJAX_ATOMIC_ADD(unsigned)
FHEJAX_ATOMIC_ADD(unsigned long long)
#undef FHEJAX_ATOMIC_ADD

// ---- arithmetic. Nothing here may be contracted: compile with -ffp-contract=off ----------------------------------

template <typename T>
T __ldg(const T* p) {
  return *p;
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1u) << (31 - i);
  return reversed;
}
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __longlong_as_double(long long x) {
  double y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline long long __double_as_longlong(double x) {
  long long y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

// ---- the runtime: one device, on which a double costs twice what a float does -------------------------------------

using cudaError_t = int;
using cudaStream_t = void*;
constexpr cudaError_t cudaSuccess = 0;
enum cudaMemcpyKind { cudaMemcpyHostToDevice };
enum cudaDeviceAttr { cudaDevAttrSingleToDoublePrecisionPerfRatio, cudaDevAttrComputeCapabilityMajor };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
constexpr unsigned cudaStreamNonBlocking = 1;

inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {  // an H200's
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 2;
  return cudaSuccess;
}
inline cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = fhejax::emulator::AllocateTable(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
