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

// x: u64[*batch, limbs, N].
ffi::Error AutomorphismHandler(Call& call, Input x, Output out, int64_t element) {
  const Dimensions shape = ShapeOf(x);
  const int64_t n = shape.back(), rows = Product(shape, 0, shape.size() - 1);
  if (element <= 0 || element % 2 == 0 || element >= 2 * n || n & (n - 1))
    return ffi::Error::InvalidArgument("fhejax_automorphism: the element is not odd and below 2N, N a power of two");
  const int log_degree = LogOf(n);
  const auto threads = static_cast<uint32_t>(std::min<int64_t>(n, kThreads)), tiles = static_cast<uint32_t>(n) / threads;
  call.Launch(Permute, static_cast<uint64_t>(rows) * tiles, dim3(threads), 0, x.typed_data(), out->typed_data(), log_degree,
              tiles, static_cast<uint32_t>(element));
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxAutomorphism, AutomorphismHandler,
                    .Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<int64_t>("element"));

}  // namespace fhejax
