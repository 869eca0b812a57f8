// The automorphism X -> X^g on values in bit-reversed NTT order: a permutation, the same for every limb.

#include <algorithm>

#include "cuda/automorphism.h"
#include "cuda/handlers.h"

namespace fhejax {
namespace {

// One thread a word of the result; N = 2^log_degree. Words are copied as they are.
__global__ void __launch_bounds__(kThreads)
    Permute(const uint64_t* from, uint64_t* to, int log_degree, uint32_t tiles, uint32_t element) {
  const uint32_t row = blockIdx.x / tiles, at = blockIdx.x % tiles * blockDim.x + threadIdx.x;
  const uint64_t start = uint64_t{row} << log_degree;
  to[start + at] = from[start + AutomorphismSource(at, log_degree, element)];
}

void LaunchPermute(Call& call, const handlers::Automorphism& in) {
  const auto threads = static_cast<uint32_t>(std::min<int64_t>(in.n, kThreads));
  const auto tiles = static_cast<uint32_t>(in.n) / threads;
  call.Launch(Permute, static_cast<uint64_t>(in.batch * in.limbs) * tiles, dim3(threads), 0, in.x.data, in.out.data,
              LogOf(in.n), tiles, static_cast<uint32_t>(in.element));
}

}  // namespace

FHEJAX_CUDA_HANDLER(Automorphism, LaunchPermute);

}  // namespace fhejax
