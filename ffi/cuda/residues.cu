// Floating-point coefficients <-> residues, with exact integers between; and decryption to coefficients.

#include <algorithm>

#include "common/rounding.h"
#include "cuda/arithmetic.h"
#include "cuda/automorphism.h"
#include "cuda/batch.h"
#include "cuda/centred.h"
#include "cuda/handlers.h"
#include "cuda/ntt.h"

namespace fhejax {
namespace {

// 2^e mod q for 0 <= e < 2^11: the largest exponent of a product of doubles is 2 (2047 - 1075).
FHEJAX_DEVICE uint64_t PowerOfTwo(int e, const Modulus& q) {
  uint64_t power = 1, square = 2;
  for (int bit = 0; bit < 11; ++bit) {
    power = e >> bit & 1 ? Multiply(power, square, q) : power;
    square = Multiply(square, square, q);
  }
  return power;
}

// a scale, rounded, in all limbs: a thread reads one coefficient and writes its residues, reduced. Only values beyond 2^104
// take the slower path, and show it.
__global__ void __launch_bounds__(kThreads)
    RoundToResidues(Grid grid, const double* a, uint64_t* out, const Limb* limbs, uint32_t count, uint32_t n, Float scale) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const Rounded rounded = RoundProduct(a[uint64_t{tile.entry} * n + at], scale);
  uint64_t* const to = out + uint64_t{tile.entry} * count * n + at;
  for (uint32_t limb = 0; limb < count; ++limb) {
    const Modulus q = limbs[limb].modulus;
    uint64_t x = ReduceSigned(rounded.low, rounded.high, q);
    if (rounded.exponent > 0) x = Multiply(x, PowerOfTwo(rounded.exponent, q), q);
    to[uint64_t{limb} * n] = x;
  }
}

// c_0 + c_1 s + c_2 s^2 .., value by value; words are reduced. Operand 0: the ciphertext, operand 1: s, which may have more
// limbs.
__global__ void __launch_bounds__(kThreads)
    EvaluateAtSecret(Grid grid, Batch<2> batch, const uint64_t* data, const uint64_t* secret, uint64_t* out,
                     const Limb* limbs, uint32_t components, uint32_t secret_limbs, uint32_t n) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const uint64_t s = secret[(uint64_t{batch.Entry(1, tile.entry)} * secret_limbs + tile.limb) * n + at];
  const uint64_t stride = uint64_t{grid.limbs} * n;
  const uint64_t* const c = data + batch.Entry(0, tile.entry) * (components * stride) + uint64_t{tile.limb} * n + at;
  uint64_t sum = c[(components - 1) * stride];
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
    for (uint32_t k = components - 1; k-- > 0;)
      sum = A::Store(A::Add(A::Multiply(A::Load(sum), A::Load(s), q), A::Load(c[k * stride])), q);
  });
  out[uint64_t{tile.entry} * stride + uint64_t{tile.limb} * n + at] = sum;
}

struct Sizes {
  uint32_t entries, limbs, n;

  NttRows Rows(const uint64_t* from, uint64_t* to) const {
    const uint64_t stride = uint64_t{limbs} * n;
    return {from, to, stride, stride, entries, limbs, LogOf(n)};
  }
};

template <typename Stated>
void LaunchRound(Call& call, const Stated& in, const Sizes& sizes, const Limb* limbs) {
  const uint32_t threads = std::min(sizes.n, kThreads);
  const Grid grid{(sizes.n + threads - 1) / threads, sizes.entries, 1};
  call.Launch(RoundToResidues, grid.blocks(), dim3(threads), 0, grid, in.a.data, in.out.data, limbs, sizes.limbs, sizes.n,
              Split(in.scale));
}

template <typename Stated>
Sizes SizesOf(const Stated& in, int64_t n) {
  return {static_cast<uint32_t>(in.batch), static_cast<uint32_t>(in.limbs), static_cast<uint32_t>(n)};
}

void RoundCoefficients(Call& call, const handlers::RoundToResidues& in) {
  LaunchRound(call, in, SizesOf(in, in.values), LimbsOf(call, in.moduli));
}

// To NTT form.
void EncodeCoefficients(Call& call, const handlers::EncodeCoefficients& in) {
  const Limb* const limbs = TransformLimbsOf(call, in.moduli, in.n);
  const Sizes sizes = SizesOf(in, in.n);
  LaunchRound(call, in, sizes, limbs);
  const NttRows rows = sizes.Rows(in.out.data, in.out.data);
  LaunchNtt(call, rows, limbs, NttShapeOf(rows.log_degree));
}

void ResiduesToFloat(Call& call, const handlers::ResiduesToFloat& in) {
  LaunchCentredValues(call, in.x.data, static_cast<uint32_t>(in.batch), static_cast<uint32_t>(in.values), in.moduli,
                      in.places, in.out.data);
}

// From NTT form, by way of `work`.
template <typename Stated>
void LaunchDecode(Call& call, const Stated& in, const uint64_t* from, uint64_t* work) {
  const Sizes sizes = SizesOf(in, in.n);
  const NttRows rows = sizes.Rows(from, work);
  LaunchInverseNtt(call, rows, TransformLimbsOf(call, in.moduli, in.n), NttShapeOf(rows.log_degree));
  LaunchCentredValues(call, work, sizes.entries, sizes.n, in.moduli, in.places, in.out.data);
}

void DecodeCoefficients(Call& call, const handlers::DecodeCoefficients& in) {
  LaunchDecode(call, in, in.x.data, in.workspace.coefficients);
}

void DecryptCoefficients(Call& call, const handlers::DecryptCoefficients& in) {
  const auto batch = BatchOf<2>(call, in.out.batch(), {in.data.batch(), in.secret.batch()});
  const Sizes sizes = SizesOf(in, in.n);
  const uint32_t threads = std::min(sizes.n, kThreads);
  const Grid grid{(sizes.n + threads - 1) / threads, sizes.entries, sizes.limbs};
  uint64_t* const work = in.workspace.coefficients;
  call.Launch(EvaluateAtSecret, grid.blocks(), dim3(threads), 0, grid, batch, in.data.data, in.secret.data, work,
              LimbsOf(call, in.moduli), static_cast<uint32_t>(in.components), static_cast<uint32_t>(in.limbs_of_secret),
              sizes.n);
  LaunchDecode(call, in, work, work);
}

}  // namespace

FHEJAX_CUDA_HANDLER(RoundToResidues, RoundCoefficients);
FHEJAX_CUDA_HANDLER(EncodeCoefficients, EncodeCoefficients);
FHEJAX_CUDA_HANDLER(ResiduesToFloat, ResiduesToFloat);
FHEJAX_CUDA_HANDLER(DecodeCoefficients, DecodeCoefficients);
FHEJAX_CUDA_HANDLER(DecryptCoefficients, DecryptCoefficients);

}  // namespace fhejax
