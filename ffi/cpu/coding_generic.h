// The loops of coding.h in plain C++. Each coding_*.cc compiles this file for one instruction set, with FHEJAX_CODING
// naming the table; everything lives in an unnamed namespace, so that no instance compiled for one instruction set is
// ever linked into another.

#include <algorithm>

#include "common/rounding.h"
#include "common/sampling.h"
#include "cpu/coding.h"
#include "cpu/embedding_generic.h"

namespace fhejax {
namespace {

bool RoundProductRow(const double* a, int64_t n, const Float& scale, uint64_t* low, uint64_t* high) {
  uint64_t shifted = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Rounded rounded = RoundProduct(a[i], scale);
    low[i] = rounded.low;
    high[i] = rounded.high;
    shifted |= static_cast<uint64_t>(rounded.exponent > 0);
  }
  return shifted != 0;
}

void ReduceSignedRow(const uint64_t* low, const uint64_t* high, int64_t n, const CodingModulus& q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ReduceSigned(low[i], high[i], q.wide);
}

// Digit i, from the digits below it and the residues x.
void Digits(const DigitRow& row, int64_t i, const uint64_t* x, int64_t n, uint64_t* digits) {
  using Wide128 = unsigned __int128;
  constexpr int64_t kTerms = kWideTerms - 2;  // besides the first one, which is a product or reduced
  const uint64_t* const factors = row.factors.data();
  for (int64_t k = 0; k < n; ++k) {
    Wide128 sum = static_cast<Wide128>(x[k]) * factors[i];
    for (int64_t first = 0; first < i; first += kTerms) {
      if (first) sum = ReduceWide({static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)}, row.modulus.wide);
      for (int64_t j = first; j < std::min(first + kTerms, i); ++j)
        sum += static_cast<Wide128>(digits[j * kCentredChunk + k]) * factors[j];
    }
    digits[i * kCentredChunk + k] =
        ReduceWide({static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)}, row.modulus.wide);
  }
}

// The centred integers with these digits.
void CentredSums(const uint64_t* digits, int64_t n, const MixedRadixTable& table, const double* places, double* out) {
  const auto limbs = static_cast<int64_t>(table.size());
  uint64_t negative[kCentredChunk] = {};
  for (int64_t i = 0; i < limbs; ++i) {
    const uint64_t q = table[i].modulus.wide.value;
    const uint64_t* const row = digits + i * kCentredChunk;
    for (int64_t k = 0; k < n; ++k) negative[k] = ExceedsHalf(negative[k], row[k], q);
  }
  std::fill_n(out, n, 0.0);
  for (int64_t i = 0; i < limbs; ++i) {
    const uint64_t q = table[i].modulus.wide.value;
    const uint64_t* const row = digits + i * kCentredChunk;
    for (int64_t k = 0; k < n; ++k) out[k] += DigitTerm(row[k], negative[k], q, i == 0, places[i]);
  }
  for (int64_t k = 0; k < n; ++k) out[k] *= 1.0 - 2.0 * static_cast<double>(static_cast<int64_t>(negative[k]));
}

void CentredValues(const uint64_t* x, int64_t stride, int64_t n, const MixedRadixTable& table, const double* places,
                   uint64_t* digits, double* out) {
  const auto limbs = static_cast<int64_t>(table.size());
  for (int64_t i = 0; i < limbs; ++i) Digits(table[i], i, x + i * stride, n, digits);
  CentredSums(digits, n, table, places, out);
}

void ReduceNumbers(const uint32_t* words, int64_t n, const CodingModulus& q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ReduceWide(WideNumber(words + 4 * i), q.wide);
}

void TernaryRow(const uint32_t* words, int64_t n, int16_t* small) {
  for (int64_t i = 0; i < n; ++i) small[i] = TernaryOf(words + 2 * i);
}

void GaussianRow(const uint32_t* words, int64_t n, const uint64_t* thresholds, int64_t count, int16_t* small) {
  for (int64_t i = 0; i < n; ++i) {
    const Wide number = WideNumber(words + 4 * i), u = WithoutSign(number);
    int64_t magnitude = count;
    for (int64_t k = 0; k < count; ++k)
      magnitude -= static_cast<int64_t>(IsBelow(u, {thresholds[2 * k + 1], thresholds[2 * k]}));
    small[i] = static_cast<int16_t>(WithSignOf(magnitude, number));
  }
}

void SpreadRow(const int16_t* small, int64_t n, uint64_t q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ResidueOfSmall(small[i], q);
}

void SpreadTernaryRow(const int16_t* small, int64_t n, uint64_t factor, uint64_t q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ScaleTernary(small[i], factor, q);
}

void CentredErrorRow(const uint64_t* x, const int16_t* e, int64_t n, uint64_t p, int64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = CentredError(x[i], e[i], p);
}

void ScaleSignedRow(const int64_t* d, int64_t n, Factor factor, const CodingModulus& q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ScaleSigned(d[i], factor, q.wide.value);
}

}  // namespace

#ifdef FHEJAX_CODING
extern const CodingKernels FHEJAX_CODING = {
    RoundProductRow, ReduceSignedRow, CentredValues, CoefficientsToSlots, SlotsToCoefficients, ReduceNumbers,
    TernaryRow,      GaussianRow,     SpreadRow,     SpreadTernaryRow,    CentredErrorRow,     ScaleSignedRow,
};
#endif

}  // namespace fhejax
