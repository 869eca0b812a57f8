// Floating-point coefficients <-> residues, with exact integers between.

#include <algorithm>
#include <atomic>
#include <vector>

#include "cpu/batch.h"
#include "cpu/coefficients.h"
#include "cpu/handlers.h"
#include "cpu/tables.h"

namespace fhejax {
namespace {

constexpr int64_t kChunk = 1024;  // coefficients that one task works on, limb by limb

// The largest exponent of a product is 2 (2047 - 1075).
constexpr int kPowers = 1945;

// 2^e mod q for e < kPowers.
const std::vector<uint64_t>& PowersOfTwo(uint64_t q) {
  static auto& tables = *new Cache<uint64_t, std::vector<uint64_t>>;
  return tables.Get(q, [=] {
    std::vector<uint64_t> powers(kPowers, 1);
    for (int e = 1; e < kPowers; ++e) powers[e] = Reduce(2 * powers[e - 1], q);
    return powers;
  });
}

// Multiplies by the powers of two that round_product left out.
void ApplyExponents(const double* a, int64_t n, const Float& scale, const Modulus& q, uint64_t* row) {
  const std::vector<uint64_t>& powers = PowersOfTwo(q.value);
  for (int64_t i = 0; i < n; ++i)
    row[i] = Multiply(row[i], powers[std::max(Split(a[i]).exponent + scale.exponent, 0)], q);
}

// a: f64[*batch, N] -> u64[*batch, limbs, N].
ffi::Error RoundToResiduesHandler(ffi::ThreadPool pool, ffi::Buffer<ffi::F64> a, Output out, Moduli moduli,
                                  double scale) {
  const Dimensions shape = ShapeOf(a);
  const auto limbs = static_cast<int64_t>(moduli.size());
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 1), chunks = (n + kChunk - 1) / kChunk;
  const Float factor = Split(scale);
  const CodingKernels& coding = ActiveCoding();
  PrepareResult(out);
  ParallelFor(pool, batch * chunks, [&](int64_t task) {
    const int64_t entry = task / chunks, first = task % chunks * kChunk, count = std::min(kChunk, n - first);
    const double* const from = a.typed_data() + entry * n + first;
    uint64_t low[kChunk], high[kChunk];
    // Only values beyond 2^104 take the slower path, and show it.
    const bool shifted = coding.round_product(from, count, factor, low, high);
    for (int64_t limb = 0; limb < limbs; ++limb) {
      const CodingModulus& q = CodingModulusFor(moduli.begin()[limb]);
      uint64_t* const row = out->typed_data() + (entry * limbs + limb) * n + first;
      coding.reduce_signed(low, high, count, q, row);
      if (shifted) ApplyExponents(from, count, factor, q.wide, row);
    }
  });
  return ffi::Error::Success();
}

// a: f64[*batch, N] -> u64[*batch, limbs, N] in NTT form: limb by limb, each transformed while it is in the cache.
ffi::Error EncodeCoefficientsHandler(ffi::ThreadPool pool, ffi::Buffer<ffi::F64> a, Output out, Moduli moduli,
                                     double scale) {
  const Dimensions shape = ShapeOf(a);
  const auto limbs = static_cast<int64_t>(moduli.size());
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 1), chunks = (n + kChunk - 1) / kChunk;
  const Float factor = Split(scale);
  const CodingKernels& coding = ActiveCoding();
  const Scratch low(n), high(n);
  PrepareResult(out);
  for (int64_t entry = 0; entry < batch; ++entry) {
    const double* const from = a.typed_data() + entry * n;
    std::atomic<bool> shifted{false};
    ParallelFor(pool, chunks, [&](int64_t task) {
      const int64_t first = task * kChunk, count = std::min(kChunk, n - first);
      if (coding.round_product(from + first, count, factor, low.get() + first, high.get() + first)) shifted = true;
    });
    ParallelFor(pool, limbs, [&](int64_t limb) {
      const CodingModulus& q = CodingModulusFor(moduli.begin()[limb]);
      uint64_t* const row = out->typed_data() + (entry * limbs + limb) * n;
      coding.reduce_signed(low.get(), high.get(), n, q, row);
      if (shifted) ApplyExponents(from, n, factor, q.wide, row);
      ActiveKernels().forward_ntt(&row, &row, 1, NttTableFor(n, q.wide.value));
    });
  }
  return ffi::Error::Success();
}

// x: u64[*batch, limbs, N] -> f64[*batch, N]. places: the product of the moduli below each, as doubles.
ffi::Error ResiduesToFloatHandler(ffi::ThreadPool pool, Input x, FloatOutput out, Moduli moduli,
                                  ffi::Span<const double> places) {
  const Dimensions shape = ShapeOf(x);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs || places.size() != moduli.size())
    return ffi::Error::InvalidArgument("fhejax_residues_to_float: the limb axis does not match the moduli");
  const int64_t n = shape.back(), pieces = (n + kFloatPiece - 1) / kFloatPiece;
  const MixedRadixTable& table = MixedRadixTableFor({moduli.begin(), moduli.end()});
  ParallelFor(pool, Product(shape, 0, shape.size() - 2) * pieces, [&](int64_t task) {
    const int64_t entry = task / pieces, first = task % pieces * kFloatPiece;
    CentredPiece(x.typed_data() + entry * limbs * n, n, first, table, places.begin(), out->typed_data() + entry * n);
  });
  return ffi::Error::Success();
}

// The same of residues in NTT form.
ffi::Error DecodeCoefficientsHandler(ffi::ThreadPool pool, Input x, FloatOutput out, Moduli moduli,
                                     ffi::Span<const double> places) {
  const Dimensions shape = ShapeOf(x);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_decode_coefficients: the limb axis does not match the moduli");
  const int64_t n = shape.back();
  const auto row = [&](int64_t entry, int64_t limb, uint64_t*) { return x.typed_data() + (entry * limbs + limb) * n; };
  return CentredCoefficients(pool, n, Product(shape, 0, shape.size() - 2), moduli, places, row, out->typed_data());
}

#define FHEJAX_FROM_FLOAT                     \
  ffi::Ffi::Bind()                            \
      .Ctx<ffi::ThreadPool>()                 \
      .Arg<ffi::Buffer<ffi::F64>>()           \
      .Ret<ffi::Buffer<ffi::U64>>()           \
      .Attr<Moduli>("moduli")                 \
      .Attr<double>("scale")
#define FHEJAX_TO_FLOAT                       \
  ffi::Ffi::Bind()                            \
      .Ctx<ffi::ThreadPool>()                 \
      .Arg<Input>()                           \
      .Ret<ffi::Buffer<ffi::F64>>()           \
      .Attr<Moduli>("moduli")                 \
      .Attr<ffi::Span<const double>>("places")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxRoundToResidues, RoundToResiduesHandler, FHEJAX_FROM_FLOAT);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxEncodeCoefficients, EncodeCoefficientsHandler, FHEJAX_FROM_FLOAT);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxResiduesToFloat, ResiduesToFloatHandler, FHEJAX_TO_FLOAT);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxDecodeCoefficients, DecodeCoefficientsHandler, FHEJAX_TO_FLOAT);

}  // namespace fhejax
