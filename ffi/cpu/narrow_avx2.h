// Four lanes of primes below 2^50 in floating point: a fused multiply-add gives the rounding error of a product
// exactly, so that six operations make a product modulo q (van der Hoeven, Lecerf and Quintin 2016). AVX2 has no 64-bit
// multiplication, and what stands for it takes three times as many.
//
// All values are integers below 2^53 in absolute value, so every sum is exact; only estimates of quotients are rounded.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/ntt_avx2.h"

namespace fhejax {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 50;

FHEJAX_FORCE_INLINE __m256d AsDouble(Vector x) { return _mm256_castsi256_pd(x); }
FHEJAX_FORCE_INLINE Vector AsBits(__m256d x) { return _mm256_castpd_si256(x); }

// Integers below 2^52 to doubles and back: 2^52 + x has the bits of x below the exponent's.
FHEJAX_FORCE_INLINE __m256d ToDouble(Vector x) {
  const __m256d base = _mm256_set1_pd(0x1p52);
  return _mm256_sub_pd(_mm256_or_pd(AsDouble(x), base), base);
}
FHEJAX_FORCE_INLINE Vector ToInteger(__m256d x) {
  const __m256d base = _mm256_set1_pd(0x1p52);
  return _mm256_xor_si256(AsBits(_mm256_add_pd(x, base)), AsBits(base));
}

struct NarrowConstants {
  __m256d q, inverse;

  explicit NarrowConstants(const Modulus& modulus)
      : q(_mm256_set1_pd(static_cast<double>(modulus.value))),
        inverse(_mm256_set1_pd(1 / static_cast<double>(modulus.value))) {}

  FHEJAX_FORCE_INLINE __m256d Quotient(__m256d x) const {
    return _mm256_round_pd(_mm256_mul_pd(x, inverse), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }

  // |x| < 2^53 -> |x| < 0.51 q.
  FHEJAX_FORCE_INLINE __m256d Reduce(__m256d x) const { return _mm256_fnmadd_pd(Quotient(x), q, x); }

  // x w mod q, at most (0.5 + 3.01 |x w / q| 2^-53) q in absolute value, for |x w / q| < 2^53: the quotient has three
  // roundings before its own. high - quotient q is an integer below 2^53, hence exact: it is the result, below 4q, less
  // `low`, below 2^50.
  FHEJAX_FORCE_INLINE __m256d Times(__m256d x, __m256d w) const {
    const __m256d high = _mm256_mul_pd(x, w), low = _mm256_fmsub_pd(x, w, high);
    return _mm256_add_pd(_mm256_fnmadd_pd(Quotient(high), q, high), low);
  }

  // (-q, q) -> [0, q).
  FHEJAX_FORCE_INLINE __m256d Raise(__m256d x) const {
    return _mm256_add_pd(x, _mm256_and_pd(_mm256_cmp_pd(x, _mm256_setzero_pd(), _CMP_LT_OQ), q));
  }

  FHEJAX_FORCE_INLINE Vector Canonical(__m256d x) const { return ToInteger(Raise(Reduce(x))); }
};

// The arithmetic of transforms, in multiples of q < 2^50, where Times(x) stays below 0.5 + 0.38 x.
// Forward: inputs below 4 give products below 2.02, so 2.53 after a stage that reduces x, and another 1.47 after the
// next: 4 again. Backward: a sum is reduced at once, and products of differences of values below 2.1 stay below it.
struct NarrowArithmetic {
  using Factors = __m256d;
  NarrowConstants c;

  explicit NarrowArithmetic(const Modulus& q) : c(q) {}

  FHEJAX_FORCE_INLINE Factors MakeFactors(Vector values, Vector) const { return ToDouble(values); }
  FHEJAX_FORCE_INLINE Vector Enter(Vector x) const { return AsBits(ToDouble(x)); }

  template <bool kReduce>
  FHEJAX_FORCE_INLINE void Forward(Vector& x, Vector& y, Factors w) const {
    const __m256d u = kReduce ? c.Reduce(AsDouble(x)) : AsDouble(x), v = c.Times(AsDouble(y), w);
    x = AsBits(_mm256_add_pd(u, v));
    y = AsBits(_mm256_sub_pd(u, v));
  }

  FHEJAX_FORCE_INLINE Vector LeaveForward(Vector x) const { return c.Canonical(AsDouble(x)); }

  FHEJAX_FORCE_INLINE void Inverse(Vector& x, Vector& y, Factors w) const {
    const __m256d u = AsDouble(x), v = AsDouble(y);
    x = AsBits(c.Reduce(_mm256_add_pd(u, v)));
    y = AsBits(c.Times(_mm256_sub_pd(u, v), w));
  }

  FHEJAX_FORCE_INLINE void InverseEnd(Vector& x, Vector& y, Factors scale, Factors w) const {
    const __m256d u = AsDouble(x), v = AsDouble(y);
    x = c.Canonical(c.Times(_mm256_add_pd(u, v), scale));
    y = c.Canonical(c.Times(_mm256_sub_pd(u, v), w));
  }
};

FHEJAX_FORCE_INLINE __m256d LoadDouble(const uint64_t* x) { return ToDouble(Load(x)); }
FHEJAX_FORCE_INLINE __m256d SetDouble(uint64_t x) { return _mm256_set1_pd(static_cast<double>(x)); }

// Products of residues are below 0.88 q.
void MultiplyNarrow(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  const NarrowConstants c(q);
  for (int64_t i = 0; i < n; i += kLanes)
    Store(out + i, ToInteger(c.Raise(c.Times(LoadDouble(a + i), LoadDouble(b + i)))));
}

void MultiplyAddNarrow(const uint64_t* a, const uint64_t* b, const uint64_t* addend, uint64_t* out, int64_t n,
                       const Modulus& q) {
  const NarrowConstants c(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m256d product = c.Times(LoadDouble(a + i), LoadDouble(b + i));
    Store(out + i, c.Canonical(_mm256_add_pd(product, LoadDouble(addend + i))));
  }
}

void MultiplyFactorNarrow(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  const NarrowConstants c(q);
  const __m256d factor = SetDouble(w.value);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ToInteger(c.Raise(c.Times(LoadDouble(a + i), factor))));
}

// (a - b) w below 0.88 q in absolute value.
struct DifferenceTimesNarrow {
  const uint64_t *a, *b;
  __m256d w;
  NarrowConstants c;

  FHEJAX_FORCE_INLINE __m256d operator()(int64_t i) const {
    return c.Times(_mm256_sub_pd(LoadDouble(a + i), LoadDouble(b + i)), w);
  }
};

void SubtractMultiplyNarrow(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                            const Modulus& q) {
  const DifferenceTimesNarrow product{a, b, SetDouble(w.value), NarrowConstants(q)};
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ToInteger(product.c.Raise(product(i))));
}

constexpr int64_t kNarrowTerms = 8;  // so many products, and a reduced value, sum to less than 8q < 2^53

void InnerProductNarrow(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                        const Modulus& q) {
  const NarrowConstants c(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    __m256d sum = _mm256_setzero_pd();
    for (int64_t t = 0; t < terms; ++t) {
      if (t && t % kNarrowTerms == 0) sum = c.Reduce(sum);
      sum = _mm256_add_pd(sum, c.Times(LoadDouble(a[t] + i), LoadDouble(b[t] + i)));
    }
    Store(out + i, c.Canonical(sum));
  }
}

// For one target below 2^50 and y < 2^50; y f / q stays below y, whatever the sizes of q and y.
void CombineNarrow(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget& target,
                   int64_t n) {
  const NarrowConstants c(*target.q);
  const __m256d last = SetDouble(target.last);
  const std::vector<double> factors(target.factors, target.factors + terms);
  for (int64_t i = 0; i < n; i += kLanes) {
    __m256d sum = c.Reduce(c.Times(LoadDouble(v + i), last));
    for (int64_t t = 0; t < terms; ++t) {
      if (t && t % kNarrowTerms == 0) sum = c.Reduce(sum);
      sum = _mm256_add_pd(sum, c.Times(LoadDouble(y[t] + i), _mm256_set1_pd(factors[t])));
    }
    Store(target.out + i, c.Canonical(sum));
  }
}

}  // namespace
}  // namespace fhejax
