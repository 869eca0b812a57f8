// What a GPU does at most: copies, integer and floating-point operations, and the butterflies and products of
// ffi/cuda/arithmetic.h in registers. As a program it prints rates; benchmarks/instructions.py counts the instructions of
// its kernels.

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "cuda/ntt_passes.h"

using namespace fhejax;

namespace {

// Eight words of a thread through kPasses passes of three stages: 12 butterflies, 7 factors each. Words in [0, q).
template <typename A, bool kInverse, int kPasses>
__device__ __forceinline__ void Passes(uint64_t* words, const Limb* limb, const void* roots, int rounds) {
  const typename A::Modulus q = A::ModulusOf(*limb);
  const RowSlots slots{0};
  typename A::Word x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = A::Load(words[i * blockDim.x + threadIdx.x]);
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      const NttPasses<A, kInverse, false, RowSlots> one{q, roots, 1 + pass, 3, 0, 1, nullptr, slots};
      one.Run([&](uint32_t k) { return x[k]; }, [&](uint32_t k, typename A::Word word) { x[k] = word; });
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i * blockDim.x + threadIdx.x] = A::Store(x[i], q);
}

// kEach products of words in memory, or of each with one factor.
template <typename A, bool kConstant, int kEach>
__device__ __forceinline__ void Products(uint64_t* words, const uint64_t* others, const Limb* limb, const void* roots) {
  const typename A::Modulus q = A::ModulusOf(*limb);
  const typename A::Factor factor = A::FactorAt(roots, 1, q);
  const uint32_t start = blockIdx.x * kEach * kThreads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint32_t at = start + i * kThreads;
    const typename A::Word x = A::Load(words[at]);
    if constexpr (kConstant)
      words[at] = A::Store(A::Multiply(x, factor, q), q);
    else
      words[at] = A::Store(A::Multiply(x, A::Load(others[at]), q), q);
  }
}

// A sum of kTerms products of words in memory, reduced once: integers in 128 bits, doubles term by term.
template <typename A, bool, int kTerms>
__device__ __forceinline__ void Sum(uint64_t* words, const uint64_t* others, const Limb* limb, const void*) {
  const typename A::Modulus q = A::ModulusOf(*limb);
  const uint32_t start = blockIdx.x * kTerms * kThreads + threadIdx.x;
  if constexpr (std::is_same_v<A, Integer>) {
    Wide sum{0, 0};
#pragma unroll
    for (int i = 0; i < kTerms; ++i) Accumulate(sum, words[start + i * kThreads], others[start + i * kThreads]);
    words[start] = ReduceWide(sum, q);
  } else {
    double sum = 0;
#pragma unroll
    for (int i = 0; i < kTerms; ++i) {
      const uint32_t at = start + i * kThreads;
      sum = A::Add(sum, A::Multiply(A::Load(words[at]), A::Load(others[at]), q));
    }
    words[start] = A::Store(sum, q);
  }
}

}  // namespace

#define KERNEL extern "C" __global__ void __launch_bounds__(kThreads)
#define PASSES(name, A, inverse, count)                                                         \
  KERNEL name##_##count(uint64_t* words, const Limb* limb, const void* roots, int rounds) {     \
    Passes<A, inverse, count>(words + size_t{blockIdx.x} * 8 * blockDim.x, limb, roots, rounds); \
  }
#define PRODUCTS(name, A, constant, count)                                                                 \
  KERNEL name##_##count(uint64_t* words, const uint64_t* others, const Limb* limb, const void* roots) {    \
    Products<A, constant, count>(words, others, limb, roots);                                              \
  }
#define SUMS(name, A, unused, count)                                                                       \
  KERNEL name##_##count(uint64_t* words, const uint64_t* others, const Limb* limb, const void* roots) {    \
    Sum<A, unused, count>(words, others, limb, roots);                                                     \
  }
#define BOTH(macro, name, A, option, few, many) macro(name, A, option, few) macro(name, A, option, many)

BOTH(PASSES, forward_integer, Integer, false, 1, 2)
BOTH(PASSES, forward_double, Double, false, 1, 2)
BOTH(PASSES, inverse_integer, Integer, true, 1, 2)
BOTH(PASSES, inverse_double, Double, true, 1, 2)
BOTH(PRODUCTS, product_integer, Integer, false, 1, 4)
BOTH(PRODUCTS, product_double, Double, false, 1, 4)
BOTH(PRODUCTS, factor_integer, Integer, true, 1, 4)
BOTH(PRODUCTS, factor_double, Double, true, 1, 4)
BOTH(SUMS, sum_integer, Integer, false, 2, 4)
BOTH(SUMS, sum_double, Double, false, 2, 4)

// 8 x 16 independent chains' links a round.
KERNEL multiply_adds_32(uint32_t* out, int rounds) {
  uint32_t x[8];
  for (int i = 0; i < 8; ++i) x[i] = out[i * kThreads + threadIdx.x];
  const uint32_t a = out[threadIdx.x] | 1, b = out[0];
#pragma unroll 1
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < 128; ++i) x[i % 8] = x[i % 8] * a + b;
  for (int i = 0; i < 8; ++i) out[i * kThreads + threadIdx.x] = x[i];
}

KERNEL multiply_adds_double(double* out, int rounds) {
  double x[8];
  for (int i = 0; i < 8; ++i) x[i] = out[i * kThreads + threadIdx.x];
  const double a = out[threadIdx.x], b = out[0];
#pragma unroll 1
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int i = 0; i < 128; ++i) x[i % 8] = __fma_rn(x[i % 8], a, b);
  for (int i = 0; i < 8; ++i) out[i * kThreads + threadIdx.x] = x[i];
}

namespace {

void Expect(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

// The least seconds of seven runs, after two that warm up.
template <typename Run>
double Seconds(const Run& run) {
  cudaEvent_t start, stop;
  Expect(cudaEventCreate(&start), "event");
  Expect(cudaEventCreate(&stop), "event");
  float least = 0;
  for (int i = 0; i < 9; ++i) {
    Expect(cudaEventRecord(start), "record");
    run();
    Expect(cudaGetLastError(), "launch");
    Expect(cudaEventRecord(stop), "record");
    Expect(cudaEventSynchronize(stop), "run");
    float milliseconds = 0;
    Expect(cudaEventElapsedTime(&milliseconds, start, stop), "time");
    if (i == 2 || (i > 2 && milliseconds < least)) least = milliseconds;
  }
  Expect(cudaEventDestroy(start), "event");
  Expect(cudaEventDestroy(stop), "event");
  return least / 1e3;
}

void Print(const char* name, double rate) { std::printf(",\n  \"%s\": %.6g", name, rate); }

}  // namespace

// A prime of 50 bits; the factors may be any below it. Times say nothing of the values.
int main() {
  cudaDeviceProp device;
  Expect(cudaGetDeviceProperties(&device, 0), "device");
  int ratio = 0;
  Expect(cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, 0), "ratio");
  std::printf("{\n  \"device\": \"%s\",\n  \"multiprocessors\": %d,\n  \"l2_bytes\": %d,\n  \"memory_bytes\": %zu,\n", device.name,
              device.multiProcessorCount, device.l2CacheSize, device.totalGlobalMem);
  std::printf("  \"floats_per_double\": %d,\n  \"default_arithmetic\": \"%s\"", ratio,
              ratio <= 2 && device.major >= 9 ? "double" : "integer");

  const size_t bytes = size_t{1} << 30;
  uint64_t *words, *others;
  Expect(cudaMalloc(&words, bytes), "memory");
  Expect(cudaMalloc(&others, bytes), "memory");
  Expect(cudaMemset(words, 1, bytes), "memory");
  Expect(cudaMemset(others, 1, bytes), "memory");
  const uint64_t q = 1125899906826241;
  const Modulus modulus = {q, static_cast<uint64_t>((static_cast<unsigned __int128>(1) << 112) / q), 48, {}, {}, {}};
  const Limb host{modulus, 1 / static_cast<double>(q), ArithmeticKind::kInteger, nullptr, nullptr};
  Limb* limb;
  Expect(cudaMalloc(&limb, sizeof host), "memory");
  Expect(cudaMemcpy(limb, &host, sizeof host, cudaMemcpyHostToDevice), "copy");
  Factor factors[16];
  double doubles[16];
  for (uint64_t i = 0; i < 16; ++i) {
    const uint64_t w = 0x123456789abcdu * (i + 1) % q;
    factors[i] = {w, static_cast<uint64_t>((static_cast<unsigned __int128>(w) << 64) / q)};
    doubles[i] = w > q / 2 ? -static_cast<double>(q - w) : static_cast<double>(w);
  }
  void *integer_roots, *double_roots;
  Expect(cudaMalloc(&integer_roots, sizeof factors), "memory");
  Expect(cudaMalloc(&double_roots, sizeof doubles), "memory");
  Expect(cudaMemcpy(integer_roots, factors, sizeof factors, cudaMemcpyHostToDevice), "copy");
  Expect(cudaMemcpy(double_roots, doubles, sizeof doubles, cudaMemcpyHostToDevice), "copy");

  Print("copy_bytes_per_second",
        2.0 * bytes / Seconds([&] { cudaMemcpyAsync(others, words, bytes, cudaMemcpyDeviceToDevice); }));
  const unsigned blocks = 32u * device.multiProcessorCount;
  const int rounds = 256;
  const double chains = 128.0 * rounds * blocks * kThreads, butterflies = 24.0 * rounds * blocks * kThreads;
  Print("multiply_adds_32_per_second",
        chains / Seconds([&] { multiply_adds_32<<<blocks, kThreads>>>(reinterpret_cast<uint32_t*>(others), rounds); }));
  Print("multiply_adds_double_per_second",
        chains / Seconds([&] { multiply_adds_double<<<blocks, kThreads>>>(reinterpret_cast<double*>(others), rounds); }));
#define RATE(kernel, roots) \
  Print("butterflies_" #kernel "_per_second", \
        butterflies / Seconds([&] { kernel##_2<<<blocks, kThreads>>>(words, limb, roots, rounds); }))
  Expect(cudaMemset(words, 1, bytes), "memory");
  RATE(forward_integer, integer_roots);
  RATE(inverse_integer, integer_roots);
  RATE(forward_double, double_roots);
  RATE(inverse_double, double_roots);
#undef RATE
  const unsigned many = bytes / 8 / (4 * kThreads);
  Print("products_integer_per_second",
        bytes / 8.0 / Seconds([&] { product_integer_4<<<many, kThreads>>>(words, others, limb, integer_roots); }));
  Print("products_double_per_second",
        bytes / 8.0 / Seconds([&] { product_double_4<<<many, kThreads>>>(words, others, limb, double_roots); }));
  Print("terms_integer_per_second",
        bytes / 8.0 / Seconds([&] { sum_integer_4<<<many, kThreads>>>(words, others, limb, integer_roots); }));
  Print("terms_double_per_second",
        bytes / 8.0 / Seconds([&] { sum_double_4<<<many, kThreads>>>(words, others, limb, double_roots); }));
  std::printf("\n}\n");
  return 0;
}
