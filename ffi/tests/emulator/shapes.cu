// The transforms with blocks of any shape, which handlers choose by the degree alone.

#include "cuda/automorphism.h"
#include "cuda/ntt.h"

namespace fhejax {
namespace {

// x: u64[limbs, N]
ffi::Error NttOfShape(Call& call, ffi::Buffer<ffi::U64> x, ffi::ResultBuffer<ffi::U64> out, Moduli moduli, int64_t inverse, Moduli shape) {
  const int64_t n = x.dimensions().back();
  const uint64_t stride = x.element_count();
  const NttRows rows{x.typed_data(), out->typed_data(), stride, stride, 1, static_cast<uint32_t>(moduli.size()), LogOf(n)};
  const NttShape cut{static_cast<int>(shape[0]), static_cast<int>(shape[1]), static_cast<int>(shape[2])};
  (inverse ? LaunchInverseNtt : LaunchNtt)(call, rows, TransformLimbsOf(call, moduli, n), cut);
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_SYMBOL(TestNttOfShape, NttOfShape,
                    .Arg<ffi::Buffer<ffi::U64>>()
                        .Ret<ffi::Buffer<ffi::U64>>()
                        .Attr<Moduli>("moduli")
                        .Attr<int64_t>("inverse")
                        .Attr<Moduli>("shape"));

}  // namespace fhejax
