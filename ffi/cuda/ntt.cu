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

template <typename Stated, typename Transform>
void TransformRows(Call& call, const Stated& in, const Transform& transform) {
  const auto stride = static_cast<uint64_t>(in.n * in.limbs);
  const NttRows rows{in.x.data, in.out.data, stride, stride, static_cast<uint32_t>(in.batch), static_cast<uint32_t>(in.limbs),
                     LogOf(in.n)};
  transform(call, rows, TransformLimbsOf(call, in.moduli, in.n), NttShapeOf(rows.log_degree));
}

void Forward(Call& call, const handlers::Ntt& in) { TransformRows(call, in, LaunchNtt); }
void Inverse(Call& call, const handlers::InverseNtt& in) { TransformRows(call, in, LaunchInverseNtt); }

}  // namespace

FHEJAX_CUDA_HANDLER(Ntt, Forward);
FHEJAX_CUDA_HANDLER(InverseNtt, Inverse);

}  // namespace fhejax
