// AVX-512 IFMA: 52-bit products, eight lanes, for odd primes below 2^50; larger primes take the plain loops.

#include "cpu/coding_avx512.h"

namespace fhejax {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 50;

// A sum of 52-bit products: low + 2^52 high. Instructions read the low 52 bits of their factors and ignore the others.
struct Sum {
  __m512i low, high;
};

inline void AddProduct(Sum& sum, __m512i a, __m512i b) {
  sum.low = _mm512_madd52lo_epu64(sum.low, a, b);
  sum.high = _mm512_madd52hi_epu64(sum.high, a, b);
}

struct Constants {
  __m512i q, twice, inverse, mu, negative;
  unsigned shift;
};

inline Constants MakeConstants(const CodingModulus& q) {
  return {Set(q.wide.value), Set(2 * q.wide.value), Set(q.inverse), Set(q.mu), Set((uint64_t{1} << 52) - q.wide.value),
          static_cast<unsigned>(q.wide.shift)};
}

// sum / 2^52 mod q, below (terms + 1) q, for a sum of `terms` products of a factor below q and one below 2^52.
// (Montgomery: with m = sum / q mod 2^52 the low 52 bits of m q are those of the sum.)
inline __m512i DivideByWord(const Sum& sum, const Constants& c) {
  const __m512i high = _mm512_add_epi64(sum.high, _mm512_srli_epi64(sum.low, 52));
  const __m512i m = _mm512_madd52lo_epu64(Zero(), sum.low, c.inverse);
  return _mm512_add_epi64(high, _mm512_sub_epi64(c.q, _mm512_madd52hi_epu64(Zero(), m, c.q)));
}

// [0, 2m) -> [0, m).
inline __m512i ReduceBy(__m512i x, __m512i m) { return _mm512_min_epu64(x, _mm512_sub_epi64(x, m)); }

// x < 2^10 q -> [0, q). With L the length of q, x / 2^(L-2) and mu miss less than 1/2 and 2^-38 of the quotient.
inline __m512i ReduceMultiple(__m512i x, const Constants& c) {
  const __m512i quotient = _mm512_madd52hi_epu64(Zero(), _mm512_srli_epi64(x, c.shift), c.mu);
  const __m512i rest = _mm512_and_si512(_mm512_madd52lo_epu64(x, quotient, c.negative), Set(kMask));
  return ReduceBy(rest, c.q);
}

// low + 2^64 high modulo q.
struct WideReduction {
  Constants c;
  __m512i powers[3];
};

inline WideReduction MakeWideReduction(const CodingModulus& q) {
  return {MakeConstants(q), {Set(q.powers[0]), Set(q.powers[1]), Set(q.powers[2])}};
}

inline __m512i ReduceTwoWords(__m512i low, __m512i high, const WideReduction& r) {
  Sum sum{Zero(), Zero()};
  AddProduct(sum, low, r.powers[0]);
  AddProduct(sum, _mm512_or_si512(_mm512_srli_epi64(low, 52), _mm512_slli_epi64(high, 12)), r.powers[1]);
  AddProduct(sum, _mm512_srli_epi64(high, 40), r.powers[2]);
  return ReduceBy(ReduceBy(DivideByWord(sum, r.c), r.c.twice), r.c.q);
}

void ReduceSigned52(const uint64_t* low, const uint64_t* high, int64_t n, const CodingModulus& q, uint64_t* out) {
  if (q.wide.value >= kNarrow || n % kLanes) return ReduceSignedRow(low, high, n, q, out);
  const WideReduction r = MakeWideReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m512i top = Load(high + i);
    const __m512i residue = ReduceTwoWords(Load(low + i), _mm512_and_si512(top, Set(~kSign)), r);
    const __mmask8 flip = _mm512_mask_test_epi64_mask(_mm512_movepi64_mask(top), residue, residue);
    Store(out + i, _mm512_mask_sub_epi64(residue, flip, r.c.q, residue));
  }
}

constexpr int kRegisters = kCentredChunk / kLanes;

// Digit i of kCentredChunk coefficients. Digits of 52 bits and more, of the larger moduli, are two factors.
void Digits52(const MixedRadixTable& table, int64_t i, const uint64_t* x, uint64_t* digits) {
  const DigitRow& row = table[i];
  Sum sums[kRegisters] = {};
  const auto add = [&](const uint64_t* values, int64_t term, bool wide) {
    const __m512i factor = Set(row.narrow_factors[2 * term]);
    for (int k = 0; k < kRegisters; ++k) AddProduct(sums[k], Load(values + k * kLanes), factor);
    if (!wide) return;
    const __m512i upper = Set(row.narrow_factors[2 * term + 1]);
    for (int k = 0; k < kRegisters; ++k)
      AddProduct(sums[k], _mm512_srli_epi64(Load(values + k * kLanes), 52), upper);
  };
  for (int64_t j = 0; j < i; ++j)
    add(digits + j * kCentredChunk, j, table[j].modulus.wide.value >> 52 != 0);
  add(x, i, false);
  const Constants c = MakeConstants(row.modulus);
  for (int k = 0; k < kRegisters; ++k)
    Store(digits + i * kCentredChunk + k * kLanes,
          ReduceMultiple(DivideByWord(sums[k], c), c));
}

// The centred integers with eight coefficients' digits, as in the plain loop.
inline __m512d CentredValue52(const uint64_t* digits, const MixedRadixTable& table, const double* places) {
  const size_t limbs = table.size();
  __mmask8 negative = 0;
  for (size_t i = 0; i < limbs; ++i) {
    const __m512i v = Load(digits + i * kCentredChunk), half = Set(table[i].modulus.wide.value / 2);
    negative = _mm512_cmpgt_epu64_mask(v, half) | (_mm512_cmpeq_epu64_mask(v, half) & negative);
  }
  __m512d total = _mm512_setzero_pd();
  for (size_t i = 0; i < limbs; ++i) {
    const __m512i v = Load(digits + i * kCentredChunk);
    const __m512i digit = _mm512_mask_sub_epi64(v, negative, Set(table[i].modulus.wide.value - (i > 0)), v);
    const __mmask8 something = _mm512_test_epi64_mask(digit, digit);
    const __m512d term = _mm512_maskz_mul_pd(something, _mm512_cvtepi64_pd(digit), _mm512_set1_pd(places[i]));
    total = _mm512_add_pd(total, term);
  }
  return _mm512_mul_pd(total, _mm512_mask_blend_pd(negative, _mm512_set1_pd(1.0), _mm512_set1_pd(-1.0)));
}

void CentredValues52(const uint64_t* x, int64_t stride, int64_t n, const MixedRadixTable& table, const double* places,
                     uint64_t* digits, double* out) {
  // With two products a limb at most, no sum of theirs reaches 2^10 q.
  const auto limbs = static_cast<int64_t>(table.size());
  if (n != kCentredChunk || limbs >= 500) return CentredValues(x, stride, n, table, places, digits, out);
  for (int64_t i = 0; i < limbs; ++i) {
    const uint64_t* const limb = x + i * stride;
    if (table[i].modulus.wide.value < kNarrow) {
      Digits52(table, i, limb, digits);
    } else {
      Digits(table[i], i, limb, n, digits);
    }
  }
  for (int64_t k = 0; k < n; k += kLanes) _mm512_storeu_pd(out + k, CentredValue52(digits + k, table, places));
}

void ReduceNumbers52(const uint32_t* words, int64_t n, const CodingModulus& q, uint64_t* out) {
  if (q.wide.value >= kNarrow || n % kLanes) return ReduceNumbers(words, n, q, out);
  const WideReduction r = MakeWideReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    __m512i low, high;
    LoadNumbers(words + 4 * i, low, high);
    Store(out + i, ReduceTwoWords(low, high, r));
  }
}

void ScaleSigned52(const int64_t* d, int64_t n, Factor factor, const CodingModulus& q, uint64_t* out) {
  if (q.wide.value >= kNarrow || n % kLanes) return ScaleSignedRow(d, n, factor, q, out);
  const Constants c = MakeConstants(q);
  const __m512i lower = Set(Multiply(factor.value, q.powers[0], q.wide));
  const __m512i upper = Set(Multiply(factor.value, q.powers[1], q.wide));
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m512i value = Load(d + i), magnitude = _mm512_abs_epi64(value);
    Sum sum{Zero(), Zero()};
    AddProduct(sum, magnitude, lower);
    AddProduct(sum, _mm512_srli_epi64(magnitude, 52), upper);
    const __m512i residue = ReduceBy(ReduceBy(DivideByWord(sum, c), c.twice), c.q);
    const __mmask8 flip = _mm512_mask_test_epi64_mask(_mm512_movepi64_mask(value), residue, residue);
    Store(out + i, _mm512_mask_sub_epi64(residue, flip, c.q, residue));
  }
}

}  // namespace

extern const CodingKernels kCodingIfma = {
    RoundProduct512, ReduceSigned52, CentredValues52, CoefficientsToSlots, SlotsToCoefficients, ReduceNumbers52,
    TernaryRow,     Gaussian512,    SpreadRow,       SpreadTernaryRow,    CentredErrorRow,     ScaleSigned52,
};

}  // namespace fhejax
