// AVX-512 IFMA: 52-bit products, eight lanes, for primes below 2^50; larger ones take the loops of rows_avx512.h.
//
// A 52-bit product is two instructions, so a lazy butterfly is three of them and six or seven additions. With
// q < 2^50 the lazy range [0, 4q) fits into 52 bits.

#include <immintrin.h>

#include "cpu/kernels_generic.h"
#include "cpu/chacha20_avx512.h"
#include "cpu/rows_avx512.h"

namespace fhejax {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 50;
constexpr uint64_t kRoomyForward = uint64_t{1} << 46, kRoomyInverse = uint64_t{1} << 45;
constexpr uint64_t kMask = (uint64_t{1} << 52) - 1;

struct Constants {
  Vector q, twice, negative, mask;
};

inline Constants MakeConstants(uint64_t q) { return {Set(q), Set(2 * q), Set((uint64_t{1} << 52) - q), Set(kMask)}; }

// Factors w below q with their companions floor(w 2^52 / q).
struct Factors {
  Vector value, companion;
};

// sum + y * w, where y * w mod q is taken in [0, 2q), modulo 2^52: the bits above are noise, and no later product looks
// at them. Any y, of which the lower 52 bits count (Harvey 2014). Adding h (2^52 - q) subtracts h q modulo 2^52.
FHEJAX_FORCE_INLINE Vector AddTimes(Vector sum, Vector y, Factors w, const Constants& c) {
  const Vector h = _mm512_madd52hi_epu64(Zero(), y, w.companion);
  return _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(sum, y, w.value), h, c.negative);
}

// y * w mod q in [0, 2q), for y < 2^52.
FHEJAX_FORCE_INLINE Vector TimesLazy(Vector y, Factors w, const Constants& c) {
  return _mm512_and_si512(AddTimes(Zero(), y, w, c), c.mask);
}

// Primes below 2^50: [0, 4q) forward and [0, 2q) backward fit into 52 bits, and every stage reduces.
struct Narrow {
  using Factors = fhejax::Factors;
  Constants c;

  explicit Narrow(const Modulus& q) : c(MakeConstants(q.value)) {}

  // [0, 4q) x [0, 4q) -> the same, modulo 2^52.
  FHEJAX_FORCE_INLINE void Forward(Vector& x, Vector& y, Factors w) const {
    const Vector u = ReduceBy(_mm512_and_si512(x, c.mask), c.twice);
    x = AddTimes(u, y, w, c);
    y = _mm512_sub_epi64(_mm512_add_epi64(_mm512_add_epi64(u, u), c.twice), x);
  }

  FHEJAX_FORCE_INLINE Vector ReduceForward(Vector x) const {
    return ReduceBy(ReduceBy(_mm512_and_si512(x, c.mask), c.twice), c.q);
  }

  // [0, 2q) x [0, 2q) -> the same.
  template <int kSum>
  FHEJAX_FORCE_INLINE void Inverse(Vector& x, Vector& y, Factors w) const {
    const Vector difference = _mm512_sub_epi64(_mm512_add_epi64(x, c.twice), y);
    x = ReduceBy(_mm512_add_epi64(x, y), c.twice);
    y = TimesLazy(difference, w, c);
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE Vector LeaveInverse(Vector x) const {
    return x;
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE void InverseEnd(Vector& x, Vector& y, Factors scale, Factors w) const {
    const Vector difference = _mm512_sub_epi64(_mm512_add_epi64(x, c.twice), y);
    x = ReduceBy(TimesLazy(_mm512_add_epi64(x, y), scale, c), c.q);
    y = ReduceBy(TimesLazy(difference, w, c), c.q);
  }
};

// Primes with room for sums: forward below 2^46, as 64q fits into 52 bits and each of 18 stages adds 2q, so that none
// reduces; backward below 2^45, as 128q does and seven stages of sums go without. What a butterfly takes and gives is
// known modulo 2^52 only.
struct Roomy {
  using Factors = fhejax::Factors;
  Constants c;
  Factors one;

  explicit Roomy(const Modulus& q) : c(MakeConstants(q.value)), one{Set(1), Set((uint64_t{1} << 52) / q.value)} {}

  FHEJAX_FORCE_INLINE void Forward(Vector& x, Vector& y, Factors w) const {
    const Vector u = x;
    x = AddTimes(u, y, w, c);
    y = _mm512_sub_epi64(_mm512_add_epi64(_mm512_add_epi64(u, u), c.twice), x);
  }

  FHEJAX_FORCE_INLINE Vector ReduceForward(Vector x) const { return ReduceBy(TimesLazy(x, one, c), c.q); }

  // kSum is at most 4: sums stay below 128q.
  template <int kSum>
  FHEJAX_FORCE_INLINE Vector Difference(Vector x, Vector y) const {
    return _mm512_sub_epi64(_mm512_add_epi64(x, _mm512_slli_epi64(c.q, kSum + 2)), y);
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE void Inverse(Vector& x, Vector& y, Factors w) const {
    const Vector difference = Difference<kSum>(x, y);
    x = _mm512_add_epi64(x, y);
    y = AddTimes(Zero(), difference, w, c);
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE Vector LeaveInverse(Vector x) const {
    return kSum < 2 ? x : AddTimes(Zero(), x, one, c);
  }

  template <int kSum>
  FHEJAX_FORCE_INLINE void InverseEnd(Vector& x, Vector& y, Factors scale, Factors w) const {
    const Vector difference = Difference<kSum>(x, y);
    x = ReduceBy(TimesLazy(_mm512_add_epi64(x, y), scale, c), c.q);
    y = ReduceBy(TimesLazy(difference, w, c), c.q);
  }
};

inline Factors BroadcastFactor(Factor w) { return {Set(w.value), Set(w.companion >> 12)}; }

void MultiplyFactorRow52(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return MultiplyFactor64(a, w, out, n, q);
  const Constants c = MakeConstants(q.value);
  const Factors factor = BroadcastFactor(w);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceBy(TimesLazy(Load(a + i), factor, c), c.q));
}

template <typename A>
void ForwardWith(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  ForwardRows(from, to, rows, 0, table.degree, 1, 0, table.roots, A(table.modulus));
}

template <typename A>
void InverseWith(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale, const NttTable& table) {
  const Modulus& q = table.modulus;
  const Factor last = MakeFactor(Multiply(scale.value, table.inverse_roots.values[1], q), q.value);
  const Scaling<A> scaling{BroadcastFactor(scale), BroadcastFactor(last)};
  InverseRows(from, to, rows, 0, table.degree, 1, 0, table.inverse_roots, scaling, A(q));
}

void ForwardNtt52(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  if (!table.narrow) return ForwardNtt64(from, to, rows, table);
  return (table.modulus.value < kRoomyForward ? ForwardWith<Roomy> : ForwardWith<Narrow>)(from, to, rows, table);
}

template <typename A>
void HeadWith(uint64_t* const* rows, int64_t count, const NttTable& table) {
  HeadRows(rows, count, table.degree, table.roots, A(table.modulus));
}

template <typename A>
void TailWith(uint64_t* const* rows, int64_t count, int64_t part, const NttTable& table, const Ahead& ahead) {
  TailRows(rows, count, part, table.degree, table.roots, A(table.modulus), ahead);
}

void ForwardHead52(uint64_t* const* rows, int64_t count, const NttTable& table) {
  if (!table.narrow) return ForwardHead64(rows, count, table);
  (table.modulus.value < kRoomyForward ? HeadWith<Roomy> : HeadWith<Narrow>)(rows, count, table);
}

void ForwardTail52(uint64_t* const* rows, int64_t count, int64_t part, const NttTable& table, const Ahead& ahead) {
  if (!table.narrow) return ForwardTail64(rows, count, part, table, ahead);
  (table.modulus.value < kRoomyForward ? TailWith<Roomy> : TailWith<Narrow>)(rows, count, part, table, ahead);
}

void InverseNtt52(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale, const NttTable& table) {
  if (!table.narrow) return InverseNtt64(from, to, rows, scale, table);
  return (table.modulus.value < kRoomyInverse ? InverseWith<Roomy> : InverseWith<Narrow>)(from, to, rows, scale, table);
}

void SubtractMultiplyRow52(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                           const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return SubtractMultiply64(a, b, w, out, n, q);
  const Constants c = MakeConstants(q.value);
  const Factors factor = BroadcastFactor(w);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vector difference = _mm512_add_epi64(Load(a + i), _mm512_sub_epi64(c.q, Load(b + i)));
    Store(out + i, ReduceBy(TimesLazy(difference, factor, c), c.q));
  }
}

void SubtractMultiplyPermuteRow52(const uint64_t* a, const uint64_t* b, Factor w, const uint64_t* c,
                                  const uint32_t* source, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return SubtractMultiplyPermute64(a, b, w, c, source, out, n, q);
  const Constants k = MakeConstants(q.value);
  const Factors factor = BroadcastFactor(w);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Permuted permuted(source + i);
    const int64_t s = permuted.block;
    const Vector difference = _mm512_add_epi64(Load(a + s), _mm512_sub_epi64(k.q, Load(b + s)));
    Vector x = TimesLazy(difference, factor, k);
    if (c) x = ReduceBy(_mm512_add_epi64(x, Load(c + s)), k.twice);  // below 3q
    Store(out + i, permuted(ReduceBy(x, k.q)));
  }
}

// A sum of 52-bit products: low + 2^52 high.
struct Sum {
  Vector low, high;
};

inline void AddProduct(Sum& sum, Vector a, Vector b) {
  sum.low = _mm512_madd52lo_epu64(sum.low, a, b);
  sum.high = _mm512_madd52hi_epu64(sum.high, a, b);
}

// What reduces such a sum: the factors 1 and 2^52 modulo q.
struct Reduction {
  Constants c;
  Factors one, word;
};

inline Reduction MakeReduction(const Modulus& q) {
  return {MakeConstants(q.value), BroadcastFactor(q.one), BroadcastFactor(q.part)};
}

// So many products of factors below 2^50 keep `high` below 2^52, with room for the carries of `low`.
constexpr int64_t kSumTerms = 15;

// The carries of low go to high; low mod q and high 2^52 mod q are lazy products in [0, 2q) each: reduced.
FHEJAX_FORCE_INLINE Vector ReduceSum(const Sum& sum, const Reduction& r) {
  const Vector high = _mm512_add_epi64(sum.high, _mm512_srli_epi64(sum.low, 52));
  const Vector multiple = _mm512_madd52hi_epu64(Zero(), sum.low, r.one.companion);
  const Vector low = _mm512_madd52lo_epu64(sum.low, multiple, r.c.negative);
  const Vector total = _mm512_and_si512(AddTimes(low, high, r.word, r.c), r.c.mask);
  return ReduceBy(ReduceBy(total, r.c.twice), r.c.q);
}

// Keys and ciphertexts come from memory row by row, in more streams and across more pages than the processor follows by
// itself: so many words ahead they are asked for.
constexpr int64_t kAhead = 256;

void MultiplyRow52(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return Multiply64(a, b, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Prefetch(a + i + kAhead);
    Prefetch(b + i + kAhead);
    Sum sum{Zero(), Zero()};
    AddProduct(sum, Load(a + i), Load(b + i));
    Store(out + i, ReduceSum(sum, r));
  }
}

// A line that is written whole past the caches is not read first. The processor's own requests for a and b are enough
// beside it; ours would be in their way.
void MultiplyPastCaches52(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes || reinterpret_cast<uintptr_t>(out) % sizeof(Vector))
    return MultiplyRow52(a, b, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Zero(), Zero()};
    AddProduct(sum, Load(a + i), Load(b + i));
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), ReduceSum(sum, r));
  }
  _mm_sfence();  // such stores are not ordered with the one that says that the row is done
}

void MultiplyAddRow52(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                      const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return MultiplyAdd64(a, b, c, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Load(c + i), Zero()};
    AddProduct(sum, Load(a + i), Load(b + i));
    Store(out + i, ReduceSum(sum, r));
  }
}

void InnerProductRow52(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                       const Modulus& q) {
  constexpr int kColumns = 4;
  if (q.value >= kNarrow || n % (kColumns * kLanes)) return InnerProduct64(a, b, terms, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kColumns * kLanes) {
    Sum sums[kColumns];
    Unroll<kColumns>(FHEJAX_EACH(k) { sums[k] = {Zero(), Zero()}; });
    for (int64_t t = 0; t < terms; ++t) {
      const uint64_t *const x = a[t] + i, *const y = b[t] + i;
      if (t && t % (kSumTerms - 1) == 0)
        Unroll<kColumns>(FHEJAX_EACH(k) { sums[k] = {ReduceSum(sums[k], r), Zero()}; });
      Unroll<kColumns>(FHEJAX_EACH(k) { Prefetch(y + k * kLanes + kAhead); });
      Unroll<kColumns>(FHEJAX_EACH(k) { AddProduct(sums[k], Load(x + k * kLanes), Load(y + k * kLanes)); });
    }
    Unroll<kColumns>(FHEJAX_EACH(k) { Store(out + i + k * kLanes, ReduceSum(sums[k], r)); });
  }
}

// The terms of a conversion: factors below q, and of a source prime of 50 bits or more two parts, y mod 2^50 and
// y / 2^50 with factors 2^50 times as large.
constexpr int kPartBits = 50;

// How many products of a part below 2^50 and a factor below q a sum holds: `high` grows by less than q / 4 with each and
// stays below 2^52, and `low` by less than 2^52.
constexpr int64_t kMostTerms = (int64_t{1} << 12) - 1;
inline int64_t CombineTerms52(const Modulus& q) {
  return std::min(kMostTerms, (int64_t{1} << (54 - BitLength(q))) - 1);
}

// kTargets limbs at kColumns columns of registers: each y is loaded once for all of them.
template <int kTargets, int kColumns, bool kNarrowSource>
FHEJAX_FORCE_INLINE void CombineColumns(const uint64_t* const* y, const uint64_t* v, int64_t terms, int64_t most,
                                        const ConversionTarget* targets, const Reduction* reductions,
                                        const uint64_t* const* high_factors, int64_t first) {
  constexpr int kSums = kTargets * kColumns, kParts = kNarrowSource ? 1 : 2;
  const Vector part_mask = Set((uint64_t{1} << kPartBits) - 1);
  Sum sums[kSums];
  const auto reduce = FHEJAX_EACH(i) { sums[i] = {ReduceSum(sums[i], reductions[i / kColumns]), Zero()}; };
  Unroll<kSums>(FHEJAX_EACH(i) {
    sums[i] = {Zero(), Zero()};
    AddProduct(sums[i], Load(v + first + i % kColumns * kLanes), Set(targets[i / kColumns].last));
  });
  int64_t room = most - 1;
  for (int64_t t = 0; t < terms; ++t, room -= kParts) {
    if (room < kParts) {
      Unroll<kSums>(reduce);
      room = most - 1;
    }
    Vector value[kColumns];
    Unroll<kColumns>(FHEJAX_EACH(i) { value[i] = Load(y[t] + first + i * kLanes); });
    if constexpr (kNarrowSource) {
      Unroll<kSums>(FHEJAX_EACH(i) {
        AddProduct(sums[i], value[i % kColumns], Set(targets[i / kColumns].factors[t]));
      });
    } else {
      Unroll<kSums>(FHEJAX_EACH(i) {
        const Vector x = value[i % kColumns];
        AddProduct(sums[i], _mm512_and_si512(x, part_mask), Set(targets[i / kColumns].factors[t]));
        AddProduct(sums[i], _mm512_srli_epi64(x, kPartBits), Set(high_factors[i / kColumns][t]));
      });
    }
  }
  Unroll<kSums>(FHEJAX_EACH(i) {
    Store(targets[i / kColumns].out + first + i % kColumns * kLanes, ReduceSum(sums[i], reductions[i / kColumns]));
  });
}

template <int kTargets, bool kNarrowSource>
void CombineTargets(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
                    int64_t n) {
  constexpr int kColumns = 2;
  Reduction reductions[kTargets];
  std::vector<uint64_t> high[kTargets];
  const uint64_t* high_factors[kTargets];
  int64_t most = kMostTerms;
  for (int i = 0; i < kTargets; ++i) {
    const Modulus& q = *targets[i].q;
    reductions[i] = MakeReduction(q);
    most = std::min(most, CombineTerms52(q));
    const uint64_t part = (uint64_t{1} << kPartBits) % q.value;
    for (int64_t t = 0; t < terms && !kNarrowSource; ++t) high[i].push_back(Multiply(targets[i].factors[t], part, q));
    high_factors[i] = high[i].data();
  }
  for (int64_t first = 0; first < n; first += kColumns * kLanes)
    CombineColumns<kTargets, kColumns, kNarrowSource>(y, v, terms, most, targets, reductions, high_factors, first);
}

// Targets in groups that share a reading of the sources.
void Combine52(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
               int64_t count, int64_t n, bool narrow) {
  if (n % (2 * kLanes)) return Combine64(y, v, terms, targets, count, n, narrow);
  const auto fits = [](const ConversionTarget& target) { return target.q->value < kNarrow; };
  while (count > 0) {
    int64_t alike = 1;
    while (alike < std::min<int64_t>(count, 4) && fits(targets[alike]) == fits(*targets)) ++alike;
    if (!fits(*targets)) {
      Combine64(y, v, terms, targets, alike, n, narrow);
    } else {
      alike = alike < 4 ? std::min<int64_t>(alike, 2) : 4;
      const auto combine = alike == 4   ? (narrow ? CombineTargets<4, true> : CombineTargets<4, false>)
                           : alike == 2 ? (narrow ? CombineTargets<2, true> : CombineTargets<2, false>)
                                        : (narrow ? CombineTargets<1, true> : CombineTargets<1, false>);
      combine(y, v, terms, targets, n);
    }
    targets += alike, count -= alike;
  }
}

void OverflowRow52(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  constexpr int kColumns = 4;
  if (terms == 1 || n % (kColumns * kLanes)) return Overflow64(y, limbs, terms, v, n);
  for (int64_t i = 0; i < n; i += kColumns * kLanes) {
    Vector sums[kColumns];
    Unroll<kColumns>(FHEJAX_EACH(k) { sums[k] = Set(uint64_t{1} << 50); });
    for (int64_t t = 0; t < terms; ++t) {
      const auto left = static_cast<unsigned>(limbs[t].left), right = static_cast<unsigned>(limbs[t].right);
      const Vector ratio = Set(limbs[t].ratio);
      Unroll<kColumns>(FHEJAX_EACH(k) {
        Prefetch(y[t] + i + k * kLanes + n);  // the next block of the same rows, in all likelihood
        const Vector up = _mm512_slli_epi64(Load(y[t] + i + k * kLanes), left);
        sums[k] = _mm512_madd52hi_epu64(sums[k], _mm512_srli_epi64(up, right), ratio);
      });
    }
    Unroll<kColumns>(FHEJAX_EACH(k) { Store(v + i + k * kLanes, _mm512_srli_epi64(sums[k], 51)); });
  }
}

}  // namespace

extern const Kernels kIfma = {
    "avx512ifma",
    50,
    ForwardNtt52,
    ForwardHead52,
    ForwardTail52,
    InverseNtt52,
    AddRow,
    SubtractRow,
    MultiplyRow52,
    MultiplyPastCaches52,
    MultiplyAddRow52,
    MultiplyFactorRow52,
    SubtractMultiplyRow52,
    SubtractMultiplyPermuteRow52,
    Permute64,
    InnerProductRow52,
    Combine52,
    OverflowRow52,
    ChaCha20Blocks512,
};

}  // namespace fhejax
