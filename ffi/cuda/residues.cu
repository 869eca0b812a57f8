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

using RealInput = ffi::Buffer<ffi::F64>;
using RealOutput = ffi::ResultBuffer<ffi::F64>;

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

// Of residues u64[*batch, limbs, N], or of coefficients f64[*batch, N].
template <typename Buffer>
bool SizesOf(const Buffer& buffer, size_t own, Moduli moduli, Sizes& sizes) {
  const Dimensions shape = ShapeOf(buffer);
  if (shape.size() < own || (own == 2 && shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))) return false;
  sizes = {static_cast<uint32_t>(Product(shape, 0, shape.size() - own)), static_cast<uint32_t>(moduli.size()),
           static_cast<uint32_t>(shape.back())};
  return true;
}

ffi::Error Misfit() { return ffi::Error::InvalidArgument("fhejax: the shapes do not fit the moduli"); }

void LaunchRound(Call& call, RealInput& a, Output& out, const Sizes& sizes, const Limb* limbs, double scale) {
  const uint32_t threads = std::min(sizes.n, kThreads);
  const Grid grid{(sizes.n + threads - 1) / threads, sizes.entries, 1};
  call.Launch(RoundToResidues, grid.blocks(), dim3(threads), 0, grid, a.typed_data(), out->typed_data(), limbs, sizes.limbs,
              sizes.n, Split(scale));
}

// a: f64[*batch, N] -> u64[*batch, limbs, N].
ffi::Error RoundToResiduesHandler(Call& call, RealInput a, Output out, Moduli moduli, double scale) {
  Sizes sizes{};
  if (!SizesOf(a, 1, moduli, sizes)) return Misfit();
  LaunchRound(call, a, out, sizes, LimbsOf(call, moduli), scale);
  return call.Result();
}

// The same, in NTT form.
ffi::Error EncodeCoefficientsHandler(Call& call, RealInput a, Output out, Moduli moduli, double scale) {
  Sizes sizes{};
  if (!SizesOf(a, 1, moduli, sizes)) return Misfit();
  const Limb* const limbs = TransformLimbsOf(call, moduli, sizes.n);
  LaunchRound(call, a, out, sizes, limbs, scale);
  const NttRows rows = sizes.Rows(out->typed_data(), out->typed_data());
  LaunchNtt(call, rows, limbs, NttShapeOf(rows.log_degree));
  return call.Result();
}

// x: u64[*batch, limbs, N] -> f64[*batch, N].
ffi::Error ResiduesToFloatHandler(Call& call, Input x, RealOutput out, Moduli moduli, Places places) {
  Sizes sizes{};
  if (!SizesOf(x, 2, moduli, sizes)) return Misfit();
  LaunchCentredValues(call, x.typed_data(), sizes.entries, sizes.n, moduli, places, out->typed_data());
  return call.Result();
}

// From NTT form, by way of `work`, to f64[*batch, N].
void LaunchDecode(Call& call, const Sizes& sizes, const uint64_t* from, uint64_t* work, Moduli moduli, Places places,
                  RealOutput& out) {
  const NttRows rows = sizes.Rows(from, work);
  LaunchInverseNtt(call, rows, TransformLimbsOf(call, moduli, sizes.n), NttShapeOf(rows.log_degree));
  LaunchCentredValues(call, work, sizes.entries, sizes.n, moduli, places, out->typed_data());
}

// x: u64[*batch, limbs, N] in NTT form -> f64[*batch, N].
ffi::Error DecodeCoefficientsHandler(Call& call, Input x, RealOutput out, Output workspace, Moduli moduli, Places places) {
  Sizes sizes{};
  if (!SizesOf(x, 2, moduli, sizes)) return Misfit();
  uint64_t* const work = call.Workspace(workspace, x.element_count());
  LaunchDecode(call, sizes, x.typed_data(), work, moduli, places, out);
  return call.Result();
}

// data: u64[*batch, components, limbs, N]; secret: u64[*batch, key limbs, N] -> f64[*batch, N].
ffi::Error DecryptCoefficientsHandler(Call& call, Input data, Input secret, RealOutput out, Output workspace, Moduli moduli,
                                      Places places) {
  const Dimensions shape = ShapeOf(data), secrets = ShapeOf(secret), result = ShapeOf(*out);
  const size_t rank = shape.size();
  const auto limbs = static_cast<uint32_t>(moduli.size());
  if (rank < 3 || secrets.size() != rank - 1 || result.size() != rank - 2 || shape[rank - 2] != limbs ||
      secrets[rank - 3] < limbs || shape[rank - 3] < 1)
    return Misfit();
  const auto batch = BroadcastOf<2>({result, 1}, {OperandShape{shape, 3}, OperandShape{secrets, 2}});
  if (!batch) return ffi::Error::InvalidArgument("fhejax_decrypt_coefficients: batch axes do not broadcast");
  const Sizes sizes{batch->count, limbs, static_cast<uint32_t>(shape.back())};
  const uint32_t threads = std::min(sizes.n, kThreads);
  const Grid grid{(sizes.n + threads - 1) / threads, sizes.entries, limbs};
  uint64_t* const work = call.Workspace(workspace, uint64_t{sizes.entries} * limbs * sizes.n);
  call.Launch(EvaluateAtSecret, grid.blocks(), dim3(threads), 0, grid, *batch, data.typed_data(), secret.typed_data(), work,
              LimbsOf(call, moduli), static_cast<uint32_t>(shape[rank - 3]), static_cast<uint32_t>(secrets[rank - 3]),
              sizes.n);
  LaunchDecode(call, sizes, work, work, moduli, places, out);
  return call.Result();
}

#define FHEJAX_FROM_FLOAT .Arg<RealInput>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli").Attr<double>("scale")
#define FHEJAX_TO_FLOAT .Attr<Moduli>("moduli").Attr<Places>("places")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxRoundToResidues, RoundToResiduesHandler, FHEJAX_FROM_FLOAT);
FHEJAX_CUDA_HANDLER(FhejaxEncodeCoefficients, EncodeCoefficientsHandler, FHEJAX_FROM_FLOAT);
FHEJAX_CUDA_HANDLER(FhejaxResiduesToFloat, ResiduesToFloatHandler,
                    .Arg<Input>().Ret<ffi::Buffer<ffi::F64>>() FHEJAX_TO_FLOAT);
FHEJAX_CUDA_HANDLER(FhejaxDecodeCoefficients, DecodeCoefficientsHandler,
                    .Arg<Input>().Ret<ffi::Buffer<ffi::F64>>().Ret<ffi::Buffer<ffi::U64>>() FHEJAX_TO_FLOAT);
FHEJAX_CUDA_HANDLER(FhejaxDecryptCoefficients, DecryptCoefficientsHandler,
                    .Arg<Input>().Arg<Input>().Ret<ffi::Buffer<ffi::F64>>().Ret<ffi::Buffer<ffi::U64>>() FHEJAX_TO_FLOAT);

}  // namespace fhejax
