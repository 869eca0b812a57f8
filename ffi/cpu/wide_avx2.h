// Four lanes without floating point, for any prime below 2^61: 64-bit products from vpmuludq (32 x 32 -> 64) and
// vpmulld (the lower half of 32 x 32).
//
// The upper half of a product is only estimated: the product of the two lower words and the carries of the middle ones
// are left out. Quotients are then short by a few units, so residues are lazily below 4q or 8q, which 64 bits hold
// because q < 2^61.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/ntt_avx2.h"

namespace fhejax {
namespace {

FHEJAX_FORCE_INLINE Vector Upper(Vector x) { return _mm256_srli_epi64(x, 32); }
FHEJAX_FORCE_INLINE Vector Swapped(Vector x) { return _mm256_shuffle_epi32(x, 0xB1); }
FHEJAX_FORCE_INLINE Vector MultiplyWords(Vector x, Vector y) { return _mm256_mul_epu32(x, y); }

// [0, 2m) -> [0, m), for m <= 2^63: then x - m has its sign bit just where x < m.
FHEJAX_FORCE_INLINE Vector ReduceBy(Vector x, Vector m) {
  const Vector y = Subtract(x, m);
  const __m256d bits = _mm256_castsi256_pd(y);
  return _mm256_castpd_si256(_mm256_blendv_pd(bits, _mm256_castsi256_pd(x), bits));
}

// The two middle products, each modulo 2^32.
FHEJAX_FORCE_INLINE Vector MiddleWords(Vector x, Vector y_swapped) { return _mm256_mullo_epi32(x, y_swapped); }

// low + 2^32 times the sum of the two words of `middle`, modulo 2^64.
FHEJAX_FORCE_INLINE Vector AddMiddle(Vector low, Vector middle) {
  return Add(low, _mm256_slli_epi64(_mm256_add_epi32(middle, Swapped(middle)), 32));
}

FHEJAX_FORCE_INLINE Vector MultiplyLow(Vector x, Vector y) {
  return AddMiddle(MultiplyWords(x, y), MiddleWords(x, Swapped(y)));
}

// An integer in (x y / 2^64 - 3, x y / 2^64]: the product of the lower words and two carries are each worth less
// than 1.
FHEJAX_FORCE_INLINE Vector HighEstimate(Vector x, Vector y, Vector y_upper) {
  const Vector x_upper = Swapped(x);
  const Vector middle = Add(Upper(MultiplyWords(x, y_upper)), Upper(MultiplyWords(x_upper, y)));
  return Add(MultiplyWords(x_upper, y_upper), middle);
}

struct WideFactors {
  Vector value, swapped, companion, upper;

  FHEJAX_FORCE_INLINE WideFactors(Vector value, Vector companion)
      : value(value), swapped(Swapped(value)), companion(companion), upper(Swapped(companion)) {}
  FHEJAX_FORCE_INLINE explicit WideFactors(Factor w) : WideFactors(Set(w.value), Set(w.companion)) {}
};

struct WideConstants {
  Vector q, swapped, twice, four;

  explicit WideConstants(const Modulus& modulus)
      : q(Set(modulus.value)), swapped(Swapped(q)), twice(Set(2 * modulus.value)), four(Set(4 * modulus.value)) {}

  // x w - h q modulo 2^64.
  FHEJAX_FORCE_INLINE Vector Remainder(Vector x, Vector w, Vector w_swapped, Vector h) const {
    const Vector low = Subtract(MultiplyWords(x, w), MultiplyWords(h, q));
    return AddMiddle(low, _mm256_sub_epi32(MiddleWords(x, w_swapped), MiddleWords(h, swapped)));
  }

  // x w mod q in [0, 4q), for any x: x w / q exceeds x companion / 2^64 by less than 1.
  FHEJAX_FORCE_INLINE Vector TimesLazy(Vector x, const WideFactors& w) const {
    return Remainder(x, w.value, w.swapped, HighEstimate(x, w.companion, w.upper));
  }

  FHEJAX_FORCE_INLINE Vector ReduceFrom4(Vector x) const { return ReduceBy(ReduceBy(x, twice), q); }
  FHEJAX_FORCE_INLINE Vector ReduceFrom8(Vector x) const { return ReduceFrom4(ReduceBy(x, four)); }
};

// The arithmetic of transforms: [0, 8q) forward, [0, 4q) backward.
struct WideArithmetic {
  using Factors = WideFactors;
  WideConstants c;

  explicit WideArithmetic(const Modulus& q) : c(q) {}

  FHEJAX_FORCE_INLINE Factors MakeFactors(Vector values, Vector companions) const { return {values, companions}; }
  FHEJAX_FORCE_INLINE Vector Enter(Vector x) const { return x; }

  template <bool kReduce>
  FHEJAX_FORCE_INLINE void Forward(Vector& x, Vector& y, const Factors& w) const {
    const Vector u = ReduceBy(x, c.four), v = c.TimesLazy(y, w);
    x = Add(u, v);
    y = Subtract(Add(u, c.four), v);
  }

  FHEJAX_FORCE_INLINE Vector LeaveForward(Vector x) const { return c.ReduceFrom8(x); }

  FHEJAX_FORCE_INLINE void Inverse(Vector& x, Vector& y, const Factors& w) const {
    const Vector difference = Subtract(Add(x, c.four), y);
    x = ReduceBy(Add(x, y), c.four);
    y = c.TimesLazy(difference, w);
  }

  FHEJAX_FORCE_INLINE void InverseEnd(Vector& x, Vector& y, const Factors& scale, const Factors& w) const {
    const Vector sum = Add(x, y), difference = Subtract(Add(x, c.four), y);
    x = c.ReduceFrom4(c.TimesLazy(sum, scale));
    y = c.ReduceFrom4(c.TimesLazy(difference, w));
  }
};

void AddWide(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  const Vector m = Set(q.value);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceBy(Add(Load(a + i), Load(b + i)), m));
}

void SubtractWide(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  const Vector m = Set(q.value);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceBy(Subtract(Add(Load(a + i), m), Load(b + i)), m));
}

void MultiplyFactorWide(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  const WideConstants c(q);
  const WideFactors factor(w);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, c.ReduceFrom4(c.TimesLazy(Load(a + i), factor)));
}

// (a - b) w in [0, 4q).
struct DifferenceTimesWide {
  const uint64_t *a, *b;
  WideFactors w;
  WideConstants c;

  FHEJAX_FORCE_INLINE Vector operator()(int64_t i) const {
    return c.TimesLazy(Subtract(Add(Load(a + i), c.q), Load(b + i)), w);
  }
};

void SubtractMultiplyWide(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  const DifferenceTimesWide product{a, b, WideFactors(w), WideConstants(q)};
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, product.c.ReduceFrom4(product(i)));
}

// Barrett's a * b mod q in [0, 5q), L bits in q, both factors below q. The head estimates a b / 2^(L - 2) < 2^63, short
// by less than 3, which count at most half: mu / 2^64 <= 2^(L - 2) / q <= 1/2. The floor of mu costs 1/2 more, the
// second estimate 3.
struct Barrett {
  WideConstants c;
  Vector mu, mu_upper, left;

  explicit Barrett(const Modulus& q)
      : c(q), mu(Set(q.mu)), mu_upper(Upper(mu)), left(Set(static_cast<uint64_t>(62 - q.shift))) {}

  FHEJAX_FORCE_INLINE Vector operator()(Vector a, Vector b) const {
    const Vector four_b = _mm256_slli_epi64(b, 2);
    const Vector head = HighEstimate(_mm256_sllv_epi64(a, left), four_b, Upper(four_b));
    return c.Remainder(a, b, Swapped(b), HighEstimate(head, mu, mu_upper));
  }
};

void MultiplyWide(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  const Barrett product(q);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, product.c.ReduceFrom8(product(Load(a + i), Load(b + i))));
}

void MultiplyAddWide(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                     const Modulus& q) {
  const Barrett product(q);
  for (int64_t i = 0; i < n; i += kLanes)
    Store(out + i, product.c.ReduceFrom8(Add(product(Load(a + i), Load(b + i)), Load(c + i))));
}

// x = low + 2^30 high, both below 2^32: sums of a few products of such halves fit into 64 bits.
struct Halves {
  Vector low, high;
};

constexpr int kHalf = 30;

FHEJAX_FORCE_INLINE Halves Split(Vector x) {
  return {_mm256_and_si256(x, Set((uint64_t{1} << kHalf) - 1)), _mm256_srli_epi64(x, kHalf)};
}

// low + 2^30 middle + 2^60 high.
struct Sum {
  Vector low, middle, high;
};

FHEJAX_FORCE_INLINE Sum SumOf(Halves x) { return {x.low, x.high, _mm256_setzero_si256()}; }

FHEJAX_FORCE_INLINE void AddProduct(Sum& sum, Halves a, Halves b) {
  sum.low = Add(sum.low, MultiplyWords(a.low, b.low));
  sum.middle = Add(sum.middle, MultiplyWords(a.low, b.high));
  sum.middle = Add(sum.middle, MultiplyWords(a.high, b.low));
  sum.high = Add(sum.high, MultiplyWords(a.high, b.high));
}

// Reduces a sum below 2^124.
struct SumReduction {
  WideConstants c;
  WideFactors one, word;
  bool large;  // 2^60 <= 4q

  explicit SumReduction(const Modulus& q)
      : c(q), one(q.one), word(MakeFactor((uint64_t{1} << 60) % q.value, q.value)), large(q.value >> 58 != 0) {}

  FHEJAX_FORCE_INLINE Vector operator()(const Sum& sum) const {
    const Halves low = Split(sum.low), middle = Split(Add(sum.middle, low.high));
    const Vector high = c.TimesLazy(Add(sum.high, middle.high), word);
    const Vector rest = Add(low.low, _mm256_slli_epi64(middle.low, kHalf));  // below 2^60
    return c.ReduceFrom8(Add(high, large ? rest : c.TimesLazy(rest, one)));
  }
};

inline int BitLength(const Modulus& q) { return q.shift + 2; }

// How many products of residues of L bits a Sum holds besides one more residue: the middle ones are below 2^(L + 1)
// together, the lower ones below 2^60. (For L = 61, 4 (2^31 - 1) 2 (2^30 - 1) leaves 2^34 for the upper half of the
// residue.)
inline int64_t ProductTerms(const Modulus& q) { return std::min<int64_t>(16, int64_t{1} << (63 - BitLength(q))); }

void InnerProductWide(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                      const Modulus& q) {
  const SumReduction reduce(q);
  const int64_t room = ProductTerms(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum = SumOf(Split(Set(0)));
    for (int64_t t = 0, left = room; t < terms; ++t, --left) {
      if (left == 0) {
        sum = SumOf(Split(reduce(sum)));
        left = room;
      }
      AddProduct(sum, Split(Load(a[t] + i)), Split(Load(b[t] + i)));
    }
    Store(out + i, reduce(sum));
  }
}

// As many products y f, f of L bits, with y < 2^61 (2^50): the middle ones are below 2^L + 2^61 (2^50) together. Two
// more halves, of a residue or of v times a factor, are below 2^40.
inline int64_t CombineTerms(const Modulus& q, bool narrow) {
  const bool longest = BitLength(q) == 61;
  return narrow ? (longest ? 7 : 15) : (longest ? 3 : 5);
}

void CombineWide(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget& target, int64_t n,
                 bool narrow) {
  const SumReduction reduce(*target.q);
  const int64_t room = CombineTerms(*target.q, narrow);
  const Halves last = Split(Set(target.last));
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vector overflow = Load(v + i);
    Sum sum = SumOf({MultiplyWords(overflow, last.low), MultiplyWords(overflow, last.high)});
    for (int64_t t = 0, left = room; t < terms; ++t, --left) {
      if (left == 0) {
        sum = SumOf(Split(reduce(sum)));
        left = room;
      }
      AddProduct(sum, Split(Load(y[t] + i)), Split(Set(target.factors[t])));
    }
    Store(target.out + i, reduce(sum));
  }
}

// floor(x y / 2^52), exactly, for x and y below 2^52.
FHEJAX_FORCE_INLINE Vector High52(Vector x, Vector y) {
  const Vector mask = Set((uint64_t{1} << 26) - 1);
  const Vector x_low = _mm256_and_si256(x, mask), x_high = _mm256_srli_epi64(x, 26);
  const Vector y_low = _mm256_and_si256(y, mask), y_high = _mm256_srli_epi64(y, 26);
  const Vector carry = _mm256_srli_epi64(MultiplyWords(x_low, y_low), 26);
  const Vector middle = Add(Add(MultiplyWords(x_low, y_high), MultiplyWords(x_high, y_low)), carry);
  return Add(MultiplyWords(x_high, y_high), _mm256_srli_epi64(middle, 26));
}

void OverflowWide(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    Vector sum = Set(uint64_t{1} << 50);
    for (int64_t t = 0; t < terms; ++t) {
      const Vector up = _mm256_sllv_epi64(Load(y[t] + i), Set(static_cast<uint64_t>(limbs[t].left)));
      const Vector top = _mm256_srlv_epi64(up, Set(static_cast<uint64_t>(limbs[t].right)));
      sum = Add(sum, High52(top, Set(limbs[t].ratio)));
    }
    Store(v + i, _mm256_srli_epi64(sum, 51));
  }
}

}  // namespace
}  // namespace fhejax
