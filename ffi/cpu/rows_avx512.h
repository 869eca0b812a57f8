// Eight lanes without IFMA, for any prime below 2^61: 64-bit products from vpmuludq (32 x 32 -> 64) and vpmullq (the
// lower half of 64 x 64).
//
// The upper half of a product is only estimated: the product of the two lower words and the carries of the middle ones
// are left out, three multiplications instead of four and no chain of carries. Quotients are then short by a few
// units, so residues are lazily below 4q or 8q, which 64 bits hold because q < 2^61.
//
// Include cpu/kernels_generic.h first: its loops take the rows that are no whole number of vectors.
#pragma once

#include <algorithm>
#include <vector>

#include "cpu/ntt_avx512.h"

namespace fhejax {
namespace {

struct Constants64 {
  Vector q, twice, four;

  explicit Constants64(const Modulus& modulus)
      : q(Set(modulus.value)), twice(Set(2 * modulus.value)), four(Set(4 * modulus.value)) {}
};

FHEJAX_FORCE_INLINE Vector Upper(Vector x) { return _mm512_srli_epi64(x, 32); }
FHEJAX_FORCE_INLINE Vector Swapped(Vector x) { return _mm512_shuffle_epi32(x, static_cast<_MM_PERM_ENUM>(0xB1)); }
FHEJAX_FORCE_INLINE Vector Add(Vector x, Vector y) { return _mm512_add_epi64(x, y); }
FHEJAX_FORCE_INLINE Vector Subtract(Vector x, Vector y) { return _mm512_sub_epi64(x, y); }
FHEJAX_FORCE_INLINE Vector MultiplyWords(Vector x, Vector y) { return _mm512_mul_epu32(x, y); }
FHEJAX_FORCE_INLINE Vector MultiplyLow(Vector x, Vector y) { return _mm512_mullo_epi64(x, y); }

FHEJAX_FORCE_INLINE Vector ReduceFrom4(Vector x, const Constants64& c) { return ReduceBy(ReduceBy(x, c.twice), c.q); }
FHEJAX_FORCE_INLINE Vector ReduceFrom8(Vector x, const Constants64& c) { return ReduceFrom4(ReduceBy(x, c.four), c); }

// A factor and the upper word of its companion in the place of the lower one.
struct Factors64 {
  Vector value, companion, upper;

  Factors64() = default;
  FHEJAX_FORCE_INLINE Factors64(Vector value, Vector companion)
      : value(value), companion(companion), upper(Swapped(companion)) {}
  FHEJAX_FORCE_INLINE explicit Factors64(Factor w) : Factors64(Set(w.value), Set(w.companion)) {}
};

// An integer in (x y / 2^64 - 3, x y / 2^64]: the product of the lower words and two carries are each worth less
// than 1.
FHEJAX_FORCE_INLINE Vector HighEstimate(Vector x, Vector y, Vector y_upper) {
  const Vector x_upper = Swapped(x);
  const Vector middle = Add(Upper(MultiplyWords(x, y_upper)), Upper(MultiplyWords(x_upper, y)));
  return Add(MultiplyWords(x_upper, y_upper), middle);
}

// y * w mod q in [0, 4q), for any y: y w / q exceeds y companion / 2^64 by less than 1.
FHEJAX_FORCE_INLINE Vector TimesLazy64(Vector y, const Factors64& w, const Constants64& c) {
  return Subtract(MultiplyLow(y, w.value), MultiplyLow(HighEstimate(y, w.companion, w.upper), c.q));
}

// The arithmetic of transforms (ntt_avx512.h): [0, 8q) forward, [0, 4q) backward.
struct Arithmetic64 {
  using Factors = Factors64;
  Constants64 c;

  explicit Arithmetic64(const Modulus& q) : c(q) {}

  FHEJAX_FORCE_INLINE void Forward(Vector& x, Vector& y, const Factors& w) const {
    const Vector u = ReduceBy(x, c.four), v = TimesLazy64(y, w, c);
    x = Add(u, v);
    y = Subtract(Add(u, c.four), v);
  }

  FHEJAX_FORCE_INLINE Vector ReduceForward(Vector x) const { return ReduceFrom8(x, c); }

  template <int kSum>
  FHEJAX_FORCE_INLINE void Inverse(Vector& x, Vector& y, const Factors& w) const {
    const Vector difference = Subtract(Add(x, c.four), y);
    x = ReduceBy(Add(x, y), c.four);
    y = TimesLazy64(difference, w, c);
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE Vector LeaveInverse(Vector x) const {
    return x;
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE void InverseEnd(Vector& x, Vector& y, const Factors& scale, const Factors& w) const {
    const Vector sum = Add(x, y), difference = Subtract(Add(x, c.four), y);
    x = ReduceFrom4(TimesLazy64(sum, scale, c), c);
    y = ReduceFrom4(TimesLazy64(difference, w, c), c);
  }
};

inline void ForwardNtt64(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  if (table.degree < kLeastRow) return ForwardNtt(from, to, rows, table);
  ForwardRows(from, to, rows, 0, table.degree, 1, 0, table.roots, Arithmetic64(table.modulus));
}

inline void ForwardHead64(uint64_t* const* rows, int64_t count, const NttTable& table) {
  if (table.degree < kLeastRow) return ForwardHead(rows, count, table);
  HeadRows(rows, count, table.degree, table.roots, Arithmetic64(table.modulus));
}

inline void ForwardTail64(uint64_t* const* rows, int64_t count, int64_t part, const NttTable& table,
                          const Ahead& ahead) {
  if (table.degree < kLeastRow) return;
  TailRows(rows, count, part, table.degree, table.roots, Arithmetic64(table.modulus), ahead);
}

inline void InverseNtt64(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale,
                         const NttTable& table) {
  if (table.degree < kLeastRow) return InverseNtt(from, to, rows, scale, table);
  const Modulus& q = table.modulus;
  const Factor last = MakeFactor(Multiply(scale.value, table.inverse_roots.values[1], q), q.value);
  const Scaling<Arithmetic64> scaling{Factors64(scale), Factors64(last)};
  InverseRows(from, to, rows, 0, table.degree, 1, 0, table.inverse_roots, scaling, Arithmetic64(q));
}

inline void MultiplyFactor64(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  if (n % kLanes) return MultiplyFactorRow(a, w, out, n, q);
  const Constants64 c(q);
  const Factors64 factor(w);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceFrom4(TimesLazy64(Load(a + i), factor, c), c));
}

// (a - b) w in [0, 4q).
FHEJAX_FORCE_INLINE Vector DifferenceTimes64(const uint64_t* a, const uint64_t* b, const Factors64& w,
                                             const Constants64& c) {
  return TimesLazy64(Subtract(Add(Load(a), c.q), Load(b)), w, c);
}

inline void SubtractMultiply64(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                               const Modulus& q) {
  if (n % kLanes) return SubtractMultiplyRow(a, b, w, out, n, q);
  const Constants64 c(q);
  const Factors64 factor(w);
  for (int64_t i = 0; i < n; i += kLanes)
    Store(out + i, ReduceFrom4(DifferenceTimes64(a + i, b + i, factor, c), c));
}

// A vector of x whose first lane's source is `source`: only the lowest three bits of an index count in vpermq, and the
// block is the same for all lanes.
struct Permuted {
  int64_t block;
  Vector lanes;

  FHEJAX_FORCE_INLINE explicit Permuted(const uint32_t* source)
      : block(*source & ~uint32_t{kLanes - 1}),
        lanes(_mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)))) {}
  FHEJAX_FORCE_INLINE Vector operator()(Vector x) const { return _mm512_permutexvar_epi64(lanes, x); }
};

inline void SubtractMultiplyPermute64(const uint64_t* a, const uint64_t* b, Factor w, const uint64_t* c,
                                      const uint32_t* source, uint64_t* out, int64_t n, const Modulus& q) {
  if (n % kLanes) return SubtractMultiplyPermuteRow(a, b, w, c, source, out, n, q);
  const Constants64 constants(q);
  const Factors64 factor(w);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Permuted permuted(source + i);
    const int64_t s = permuted.block;
    Vector y = DifferenceTimes64(a + s, b + s, factor, constants);
    if (c) y = Add(y, Load(c + s));
    Store(out + i, permuted(ReduceFrom8(y, constants)));
  }
}

inline void Permute64(const uint64_t* x, const uint32_t* source, uint64_t* out, int64_t n) {
  if (n % kLanes) return PermuteRow(x, source, out, n);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Permuted permuted(source + i);
    Store(out + i, permuted(Load(x + permuted.block)));
  }
}

// Barrett's a * b mod q in [0, 5q), L bits in q, both factors below q. The head estimates a b / 2^(L - 2) < 2^63, short
// by less than 3, which count at most half: mu / 2^64 <= 2^(L - 2) / q <= 1/2. The floor of mu costs 1/2 more, the
// second estimate 3.
struct Barrett64 {
  Constants64 c;
  Vector mu, mu_upper, left;

  explicit Barrett64(const Modulus& q)
      : c(q), mu(Set(q.mu)), mu_upper(Set(q.mu >> 32)), left(Set(static_cast<uint64_t>(62 - q.shift))) {}

  FHEJAX_FORCE_INLINE Vector operator()(Vector a, Vector b) const {
    const Vector four_b = _mm512_slli_epi64(b, 2);
    const Vector head = HighEstimate(_mm512_sllv_epi64(a, left), four_b, Upper(four_b));
    return Subtract(MultiplyLow(a, b), MultiplyLow(HighEstimate(head, mu, mu_upper), c.q));
  }
};

inline void Multiply64(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  if (n % kLanes) return MultiplyRow(a, b, out, n, q);
  const Barrett64 product(q);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceFrom8(product(Load(a + i), Load(b + i)), product.c));
}

inline void MultiplyAdd64(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                          const Modulus& q) {
  if (n % kLanes) return MultiplyAddRow(a, b, c, out, n, q);
  const Barrett64 product(q);
  for (int64_t i = 0; i < n; i += kLanes)
    Store(out + i, ReduceFrom8(Add(product(Load(a + i), Load(b + i)), Load(c + i)), product.c));
}

// x = low + 2^30 high, both below 2^32: sums of a few products of such halves fit into 64 bits.
struct Halves64 {
  Vector low, high;
};

constexpr int kHalf = 30;
constexpr uint64_t kHalfMask = (uint64_t{1} << kHalf) - 1;

FHEJAX_FORCE_INLINE Halves64 Split64(Vector x) {
  return {_mm512_and_si512(x, Set(kHalfMask)), _mm512_srli_epi64(x, kHalf)};
}

// low + 2^30 middle + 2^60 high.
struct Sum64 {
  Vector low, middle, high;
};

FHEJAX_FORCE_INLINE Sum64 SumOf64(Halves64 x) { return {x.low, x.high, Zero()}; }

FHEJAX_FORCE_INLINE void AddProduct64(Sum64& sum, Halves64 a, Halves64 b) {
  sum.low = Add(sum.low, MultiplyWords(a.low, b.low));
  sum.middle = Add(sum.middle, MultiplyWords(a.low, b.high));
  sum.middle = Add(sum.middle, MultiplyWords(a.high, b.low));
  sum.high = Add(sum.high, MultiplyWords(a.high, b.high));
}

// Reduces a sum below 2^124.
struct SumReduction64 {
  Constants64 c;
  Factors64 one, word;
  bool large;  // 2^60 <= 4q

  explicit SumReduction64(const Modulus& q)
      : c(q), one(q.one), word(MakeFactor((uint64_t{1} << 60) % q.value, q.value)), large(q.value >> 58 != 0) {}

  FHEJAX_FORCE_INLINE Vector operator()(const Sum64& sum) const {
    const Halves64 low = Split64(sum.low), middle = Split64(Add(sum.middle, low.high));
    const Vector high = TimesLazy64(Add(sum.high, middle.high), word, c);
    const Vector rest = Add(low.low, _mm512_slli_epi64(middle.low, kHalf));  // below 2^60
    return ReduceFrom8(Add(high, large ? rest : TimesLazy64(rest, one, c)), c);
  }
};

inline int BitLength(const Modulus& q) { return q.shift + 2; }

// How many products of residues of L bits a Sum64 holds besides one more residue: the middle ones are below 2^(L + 1)
// together, the lower ones below 2^60. (For L = 61, 4 (2^31 - 1) 2 (2^30 - 1) leaves 2^34 for the upper half of the
// residue.)
inline int64_t ProductTerms64(const Modulus& q) { return std::min<int64_t>(16, int64_t{1} << (63 - BitLength(q))); }

inline void InnerProduct64(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                           const Modulus& q) {
  if (n % kLanes) return InnerProductRow(a, b, terms, out, n, q);
  const SumReduction64 reduce(q);
  const int64_t room = ProductTerms64(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum64 sum{Zero(), Zero(), Zero()};
    for (int64_t t = 0, left = room; t < terms; ++t, --left) {
      if (left == 0) {
        sum = SumOf64(Split64(reduce(sum)));
        left = room;
      }
      AddProduct64(sum, Split64(Load(a[t] + i)), Split64(Load(b[t] + i)));
    }
    Store(out + i, reduce(sum));
  }
}

// As many products y f, f of L bits, with y < 2^61 (2^50): the middle ones are below 2^L + 2^61 (2^50) together. Two
// more halves, of a residue or of v times a factor, are below 2^40.
inline int64_t CombineTerms64(const Modulus& q, bool narrow) {
  const bool longest = BitLength(q) == 61;
  return narrow ? (longest ? 7 : 15) : (longest ? 3 : 5);
}

// The halves of a target's factors, in turn.
inline std::vector<uint64_t> SplitFactors64(const ConversionTarget& target, int64_t terms) {
  std::vector<uint64_t> halves;
  for (int64_t t = 0; t < terms; ++t) {
    halves.push_back(target.factors[t] & kHalfMask);
    halves.push_back(target.factors[t] >> kHalf);
  }
  return halves;
}

// kTargets at once, so that each y is read and split once for all of them.
template <int kTargets>
inline void CombineGroup64(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
                           int64_t n, bool narrow) {
  std::vector<uint64_t> halves;
  std::vector<SumReduction64> reduce;
  int64_t room = 15;
  for (int k = 0; k < kTargets; ++k) {
    room = std::min(room, CombineTerms64(*targets[k].q, narrow));
    reduce.emplace_back(*targets[k].q);
    const auto split = SplitFactors64(targets[k], terms);
    halves.insert(halves.end(), split.begin(), split.end());
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum64 sums[kTargets];
    const Vector overflow = Load(v + i);
    Unroll<kTargets>(FHEJAX_EACH(k) {
      const Halves64 last = Split64(Set(targets[k].last));
      sums[k] = {MultiplyWords(overflow, last.low), MultiplyWords(overflow, last.high), Zero()};
    });
    for (int64_t t = 0, left = room; t < terms; ++t, --left) {
      if (left == 0) {
        Unroll<kTargets>(FHEJAX_EACH(k) { sums[k] = SumOf64(Split64(reduce[k](sums[k]))); });
        left = room;
      }
      const Halves64 value = Split64(Load(y[t] + i));
      Unroll<kTargets>(FHEJAX_EACH(k) {
        const uint64_t* const factor = halves.data() + 2 * (k * terms + t);
        AddProduct64(sums[k], value, {Set(factor[0]), Set(factor[1])});
      });
    }
    Unroll<kTargets>(FHEJAX_EACH(k) { Store(targets[k].out + i, reduce[k](sums[k])); });
  }
}

inline void Combine64(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
                      int64_t count, int64_t n, bool narrow) {
  if (n % kLanes) return Combine(y, v, terms, targets, count, n, narrow);
  for (; count >= 4; targets += 4, count -= 4) CombineGroup64<4>(y, v, terms, targets, n, narrow);
  if (count == 3) CombineGroup64<3>(y, v, terms, targets, n, narrow);
  if (count == 2) CombineGroup64<2>(y, v, terms, targets, n, narrow);
  if (count == 1) CombineGroup64<1>(y, v, terms, targets, n, narrow);
}

// floor(x y / 2^52), exactly, for x < 2^52 and y < 2^52.
FHEJAX_FORCE_INLINE Vector High52(Vector x, Vector y) {
  const Vector mask = Set((uint64_t{1} << 26) - 1);
  const Vector x_low = _mm512_and_si512(x, mask), x_high = _mm512_srli_epi64(x, 26);
  const Vector y_low = _mm512_and_si512(y, mask), y_high = _mm512_srli_epi64(y, 26);
  const Vector carry = _mm512_srli_epi64(MultiplyWords(x_low, y_low), 26);
  const Vector middle = Add(Add(MultiplyWords(x_low, y_high), MultiplyWords(x_high, y_low)), carry);
  return Add(MultiplyWords(x_high, y_high), _mm512_srli_epi64(middle, 26));
}

inline void Overflow64(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  if (terms == 1 || n % kLanes) return OverflowRow(y, limbs, terms, v, n);
  for (int64_t i = 0; i < n; i += kLanes) {
    Vector sum = Set(uint64_t{1} << 50);
    for (int64_t t = 0; t < terms; ++t) {
      const Vector up = _mm512_sllv_epi64(Load(y[t] + i), Set(static_cast<uint64_t>(limbs[t].left)));
      const Vector top = _mm512_srlv_epi64(up, Set(static_cast<uint64_t>(limbs[t].right)));
      sum = Add(sum, High52(top, Set(limbs[t].ratio)));
    }
    Store(v + i, _mm512_srli_epi64(sum, 51));
  }
}

}  // namespace
}  // namespace fhejax
