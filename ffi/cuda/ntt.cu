// Forward and inverse NTT of every row, in one launch or two.

#include "cuda/ntt.h"

#include <algorithm>

#include "cuda/automorphism.h"
#include "cuda/handlers.h"
#include "cuda/ntt_kernels.h"

namespace fhejax {

constexpr int kLogWhole = 11;  // rows up to this size are transformed in one launch

NttShape NttShapeOf(int log_degree) {
  if (log_degree <= kLogWhole) return {0, 0, 0};
  constexpr int kLogTile = 8 + kLogWords;  // words of a block of 256 threads
  const int log_first = log_degree / 2, log_second = log_degree - log_first;
  return {log_first, std::min(kLogTile - log_first, 5), std::max(kLogTile - log_second, 0)};
}

void LaunchNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  const WriteRows to{rows.to, rows.to_stride, rows.log_degree};
  LaunchForward(call, {rows.entries, rows.limbs, rows.log_degree, limbs, shape},
                ReadRows{rows.from, rows.from_stride, rows.log_degree}, to, to);
}

void LaunchInverseNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  const WriteRows middle{rows.to, rows.to_stride, rows.log_degree};
  LaunchInverse(call, {rows.entries, rows.limbs, rows.log_degree, limbs, shape},
                ReadRows{rows.from, rows.from_stride, rows.log_degree}, middle, InverseRows{middle});
}

namespace {

// x: u64[*batch, limbs, N], one modulus a limb.
template <typename Transform>
ffi::Error TransformRows(Call& call, Input x, Output out, Moduli moduli, const Transform& transform) {
  const Dimensions shape = ShapeOf(x);
  if (shape.size() < 2 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))
    return ffi::Error::InvalidArgument("fhejax_ntt: the limb axis does not match the moduli");
  const int64_t n = shape.back(), entries = Product(shape, 0, shape.size() - 2);
  if (n < 2 || n & (n - 1) || entries > UINT32_MAX)
    return ffi::Error::InvalidArgument("fhejax_ntt: the degree is no power of two, or the batch too large");
  const uint64_t stride = static_cast<uint64_t>(n) * moduli.size();
  const NttRows rows{x.typed_data(), out->typed_data(),
                     stride,         stride,
                     static_cast<uint32_t>(entries), static_cast<uint32_t>(moduli.size()), LogOf(n)};
  transform(call, rows, TransformLimbsOf(call, moduli, n), NttShapeOf(rows.log_degree));
  return call.Result();
}

ffi::Error NttHandler(Call& call, Input x, Output out, Moduli moduli) {
  return TransformRows(call, x, out, moduli, LaunchNtt);
}

ffi::Error InverseNttHandler(Call& call, Input x, Output out, Moduli moduli) {
  return TransformRows(call, x, out, moduli, LaunchInverseNtt);
}

#define FHEJAX_UNARY .Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxNtt, NttHandler, FHEJAX_UNARY);
FHEJAX_CUDA_HANDLER(FhejaxInverseNtt, InverseNttHandler, FHEJAX_UNARY);

}  // namespace fhejax
