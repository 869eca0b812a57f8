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

void RoundToResidues(ffi::ThreadPool& pool, const handlers::RoundToResidues& in) {
  const int64_t n = in.values, chunks = (n + kChunk - 1) / kChunk;
  const Float factor = Split(in.scale);
  const CodingKernels& coding = ActiveCoding();
  PrepareResult(in.out);
  ParallelFor(pool, in.batch * chunks, [&](int64_t task) {
    const int64_t entry = task / chunks, first = task % chunks * kChunk, count = std::min(kChunk, n - first);
    const double* const from = in.a.data + entry * n + first;
    uint64_t low[kChunk], high[kChunk];
    // Only values beyond 2^104 take the slower path, and show it.
    const bool shifted = coding.round_product(from, count, factor, low, high);
    for (int64_t limb = 0; limb < in.limbs; ++limb) {
      const CodingModulus& q = CodingModulusFor(in.moduli[limb]);
      uint64_t* const row = in.out.data + (entry * in.limbs + limb) * n + first;
      coding.reduce_signed(low, high, count, q, row);
      if (shifted) ApplyExponents(from, count, factor, q.wide, row);
    }
  });
}

// To NTT form: limb by limb, each transformed while it is in the cache.
void EncodeCoefficients(ffi::ThreadPool& pool, const handlers::EncodeCoefficients& in) {
  const int64_t n = in.n, chunks = (n + kChunk - 1) / kChunk;
  const Float factor = Split(in.scale);
  const CodingKernels& coding = ActiveCoding();
  const Scratch low(n), high(n);
  PrepareResult(in.out);
  for (int64_t entry = 0; entry < in.batch; ++entry) {
    const double* const from = in.a.data + entry * n;
    std::atomic<bool> shifted{false};
    ParallelFor(pool, chunks, [&](int64_t task) {
      const int64_t first = task * kChunk, count = std::min(kChunk, n - first);
      if (coding.round_product(from + first, count, factor, low.get() + first, high.get() + first)) shifted = true;
    });
    ParallelFor(pool, in.limbs, [&](int64_t limb) {
      const CodingModulus& q = CodingModulusFor(in.moduli[limb]);
      uint64_t* const row = in.out.data + (entry * in.limbs + limb) * n;
      coding.reduce_signed(low.get(), high.get(), n, q, row);
      if (shifted) ApplyExponents(from, n, factor, q.wide, row);
      ActiveKernels().forward_ntt(&row, &row, 1, NttTableFor(n, q.wide.value));
    });
  }
}

void ResiduesToFloat(ffi::ThreadPool& pool, const handlers::ResiduesToFloat& in) {
  const int64_t n = in.values, pieces = (n + kFloatPiece - 1) / kFloatPiece;
  const MixedRadixTable& table = MixedRadixTableFor({in.moduli.begin(), in.moduli.end()});
  ParallelFor(pool, in.batch * pieces, [&](int64_t task) {
    const int64_t entry = task / pieces, first = task % pieces * kFloatPiece;
    CentredPiece(in.x.data + entry * in.limbs * n, n, first, table, in.places.begin(), in.out.data + entry * n);
  });
}

// From NTT form.
void DecodeCoefficients(ffi::ThreadPool& pool, const handlers::DecodeCoefficients& in) {
  const auto row = [&](int64_t entry, int64_t limb, uint64_t*) { return in.x.data + (entry * in.limbs + limb) * in.n; };
  CentredCoefficients(pool, in.n, in.batch, in.moduli, in.places, row, in.out.data);
}

}  // namespace

FHEJAX_CPU_HANDLER(RoundToResidues, RoundToResidues);
FHEJAX_CPU_HANDLER(EncodeCoefficients, EncodeCoefficients);
FHEJAX_CPU_HANDLER(ResiduesToFloat, ResiduesToFloat);
FHEJAX_CPU_HANDLER(DecodeCoefficients, DecodeCoefficients);

}  // namespace fhejax
