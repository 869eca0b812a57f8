// Kernels with and without defects: what the emulator has to find, and what it has to let pass.

#include "cuda/call.h"

namespace fhejax {
namespace {

// Each takes x: u64[n] to a result u64[n], by one block of n threads with n words of shared memory, and has a workspace of
// n words.
using Kernel = void(const uint64_t* x, uint64_t* out, uint64_t* workspace, uint32_t n);

// ---- right ---------------------------------------------------------------------------------------------------

__global__ void Reversed(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t n) {
  uint64_t* const shared = SharedMemory<uint64_t>();
  shared[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = shared[n - 1 - threadIdx.x];
}

__global__ void ReversedThroughWorkspace(const uint64_t* x, uint64_t* out, uint64_t* workspace, uint32_t n) {
  workspace[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = workspace[n - 1 - threadIdx.x];
}

__global__ void ReversedInWarps(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  uint64_t* const shared = SharedMemory<uint64_t>();
  shared[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 31];
}

__global__ void ReversedByShuffles(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = __shfl_xor_sync(~0u, x[threadIdx.x], 31);
}

__global__ void Counted(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t n) {
  auto* const count = SharedMemory<unsigned>();
  if (threadIdx.x == 0) *count = 0;
  __syncthreads();
  atomicAdd(count, 1u);
  __syncthreads();
  out[threadIdx.x] = x[threadIdx.x] + *count - n;
}

__global__ void WithConstants(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  static constexpr uint64_t kConstants[] = {3, 1, 4, 1, 5, 9, 2, 6};
  out[threadIdx.x] = x[threadIdx.x] + kConstants[x[threadIdx.x] % 8];
}

// ---- wrong ---------------------------------------------------------------------------------------------------

__global__ void Race(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t n) {
  uint64_t* const shared = SharedMemory<uint64_t>();
  shared[threadIdx.x] = x[threadIdx.x];
  out[threadIdx.x] = shared[n - 1 - threadIdx.x];
}

// Whatever the order, the result is right.
__global__ void HarmlessRace(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[0] = x[0];
  if (threadIdx.x) out[threadIdx.x] = x[threadIdx.x];
}

__global__ void ShuffleForBarrier(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  uint64_t* const shared = SharedMemory<uint64_t>();
  shared[threadIdx.x] = x[threadIdx.x];
  __shfl_sync(~0u, 0, 0);
  out[threadIdx.x] = shared[threadIdx.x ^ 31];
}

__global__ void WriteAfterRead(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t n) {
  uint64_t* const shared = SharedMemory<uint64_t>();
  for (uint64_t i = 0; i < 2; ++i) {
    shared[threadIdx.x] = x[threadIdx.x] + i;
    __syncthreads();
    out[threadIdx.x] = shared[n - 1 - threadIdx.x];
  }
}

__global__ void PastResult(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) { out[threadIdx.x + 1] = x[threadIdx.x]; }
__global__ void PastOperand(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) { out[threadIdx.x] = x[threadIdx.x + 1]; }
__global__ void PastShared(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  SharedMemory<uint64_t>()[threadIdx.x + 1] = x[threadIdx.x];
  out[threadIdx.x] = x[threadIdx.x];
}
__global__ void ToOperand(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = const_cast<uint64_t*>(x)[threadIdx.x] = 1;
}
__global__ void UnwrittenShared(const uint64_t*, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = SharedMemory<uint64_t>()[threadIdx.x];
}
__global__ void UnwrittenWorkspace(const uint64_t*, uint64_t* out, uint64_t* workspace, uint32_t) {
  out[threadIdx.x] = workspace[threadIdx.x];
}

__global__ void ExitBeforeBarrier(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x % 2) return;
  __syncthreads();
}
__global__ void TwoBarriers(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x % 2)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void LaneMissing(const uint64_t* x, uint64_t* out, uint64_t*, uint32_t) {
  out[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x == 3)
    __syncthreads();
  else
    __syncwarp();
}

struct Named {
  const char* name;
  Kernel* kernel;
};

constexpr Named kKernels[] = {
#define FHEJAX_NAMED(kernel) {#kernel, kernel}
    FHEJAX_NAMED(Reversed),          FHEJAX_NAMED(ReversedThroughWorkspace), FHEJAX_NAMED(ReversedInWarps),
    FHEJAX_NAMED(ReversedByShuffles), FHEJAX_NAMED(Counted),                 FHEJAX_NAMED(WithConstants),
    FHEJAX_NAMED(Race),              FHEJAX_NAMED(HarmlessRace),             FHEJAX_NAMED(ShuffleForBarrier),
    FHEJAX_NAMED(WriteAfterRead),    FHEJAX_NAMED(PastResult),               FHEJAX_NAMED(PastOperand),
    FHEJAX_NAMED(PastShared),        FHEJAX_NAMED(ToOperand),                FHEJAX_NAMED(UnwrittenShared),
    FHEJAX_NAMED(UnwrittenWorkspace), FHEJAX_NAMED(ExitBeforeBarrier),       FHEJAX_NAMED(TwoBarriers),
    FHEJAX_NAMED(LaneMissing)};

// One operand u64[n]; a result of the same shape and a workspace; by `blocks` blocks that all do the same.
ffi::Error Planted(Call& call, ffi::RemainingArgs operands, ffi::RemainingRets results, std::string_view kernel,
                   int64_t blocks) {
  using Words = ffi::Buffer<ffi::U64>;
  const Words x = operands.get<Words>(0).value();
  ffi::Result<Words> out = results.get<Words>(0).value(), workspace = results.get<Words>(1).value();
  const auto n = static_cast<uint32_t>(x.element_count());
  for (const Named& each : kKernels)
    if (kernel == each.name)
      call.Launch(each.kernel, static_cast<uint64_t>(blocks), dim3(n), n * sizeof(uint64_t), x.typed_data(), out->typed_data(),
                  workspace->typed_data(), n);
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_SYMBOL(TestPlanted, Planted,
                    .RemainingArgs().RemainingRets().Attr<std::string_view>("kernel").Attr<int64_t>("blocks"));

}  // namespace fhejax
