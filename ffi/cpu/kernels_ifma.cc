// AVX-512 IFMA: 52-bit products, eight lanes, for primes below 2^50; larger primes take the plain loops.
//
// A 52-bit product is two instructions, so a lazy butterfly is three of them and six or seven additions. With
// q < 2^50 the lazy range [0, 4q) fits into 52 bits.

#include <immintrin.h>

#include "cpu/kernels_generic.h"

namespace fhejax {
namespace {

constexpr int64_t kLanes = 8;
constexpr uint64_t kNarrow = uint64_t{1} << 50;
constexpr uint64_t kMask = (uint64_t{1} << 52) - 1;

struct Constants {
  __m512i q, twice, negative, mask;
};

inline __m512i Set(uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
inline __m512i Load(const uint64_t* x) { return _mm512_loadu_si512(x); }
inline void Store(uint64_t* x, __m512i value) { _mm512_storeu_si512(x, value); }
inline __m512i Zero() { return _mm512_setzero_si512(); }

inline Constants MakeConstants(uint64_t q) { return {Set(q), Set(2 * q), Set((uint64_t{1} << 52) - q), Set(kMask)}; }

// [0, 2m) -> [0, m).
inline __m512i ReduceBy(__m512i x, __m512i m) { return _mm512_min_epu64(x, _mm512_sub_epi64(x, m)); }

// Factors w below q with their companions floor(w 2^52 / q).
struct Factors {
  __m512i value, companion;
};

// y * w mod q in [0, 2q), for y < 2^52 (Harvey 2014). Adding h (2^52 - q) subtracts h q modulo 2^52.
inline __m512i TimesLazy(__m512i y, Factors w, const Constants& c) {
  const __m512i h = _mm512_madd52hi_epu64(Zero(), y, w.companion);
  const __m512i low = _mm512_madd52lo_epu64(Zero(), y, w.value);
  return _mm512_and_si512(_mm512_madd52lo_epu64(low, h, c.negative), c.mask);
}

// [0, 4q) x [0, 4q) -> the same.
inline void Forward(__m512i& x, __m512i& y, Factors w, const Constants& c) {
  const __m512i u = ReduceBy(x, c.twice), v = TimesLazy(y, w, c);
  x = _mm512_add_epi64(u, v);
  y = _mm512_add_epi64(u, _mm512_sub_epi64(c.twice, v));
}

// [0, 2q) x [0, 2q) -> the same.
inline void Inverse(__m512i& x, __m512i& y, Factors w, const Constants& c) {
  const __m512i u = x, v = y;
  x = ReduceBy(_mm512_add_epi64(u, v), c.twice);
  y = TimesLazy(_mm512_add_epi64(u, _mm512_sub_epi64(c.twice, v)), w, c);
}

inline Factors Broadcast(const NarrowRoots& roots, int64_t i) {
  return {Set(roots.values[i]), Set(roots.companions[i])};
}

// For blocks of 8, 4 and 2 coefficients inside two registers: the twiddles of 2, 4 and 8 blocks, spread over the lanes.
template <int kBlocks>
inline Factors Spread(const NarrowRoots& roots, int64_t first) {
  const uint64_t *const values = roots.values.data() + first, *const companions = roots.companions.data() + first;
  if constexpr (kBlocks == 8) {
    return {Load(values), Load(companions)};
  } else if constexpr (kBlocks == 4) {
    const __m512i index = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    const auto load = [&](const uint64_t* x) {
      return _mm512_permutexvar_epi64(index, _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))));
    };
    return {load(values), load(companions)};
  } else {
    const __m512i index = _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1);
    const auto load = [&](const uint64_t* x) {
      return _mm512_permutexvar_epi64(index, _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
    };
    return {load(values), load(companions)};
  }
}

// 16 values in natural order, a and b, to (first halves, second halves) of the blocks of 8, then of 4, then of 2, and
// back: the shuffles between the last three stages.
inline void ToBlocksOf8(__m512i& a, __m512i& b) {
  const __m512i x = _mm512_shuffle_i64x2(a, b, 0x44);
  b = _mm512_shuffle_i64x2(a, b, 0xEE);
  a = x;
}

inline void FromBlocks8To4(__m512i& a, __m512i& b) {  // its own inverse
  const __m512i x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b);
  a = x;
}

inline void FromBlocks4To2(__m512i& a, __m512i& b) {  // its own inverse
  const __m512i x = _mm512_unpacklo_epi64(a, b);
  b = _mm512_unpackhi_epi64(a, b);
  a = x;
}

inline void ToNaturalFrom2(__m512i& a, __m512i& b) {
  const __m512i x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
  a = x;
}

inline void ToBlocksOf2(__m512i& a, __m512i& b) {  // the inverse of ToNaturalFrom2
  const __m512i x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
  a = x;
}

// Stages of butterflies between 2^kStages registers: the block `index` of `blocks`, cut in half kStages times.
template <int kStages>
inline void ForwardStages(__m512i (&r)[1 << kStages], const Factors* w, const Constants& c) {
  for (int stage = 0; stage < kStages; ++stage) {
    const int half = 1 << (kStages - 1 - stage);
    for (int block = 0; block < 1 << stage; ++block)
      for (int i = 0; i < half; ++i)
        Forward(r[2 * block * half + i], r[(2 * block + 1) * half + i], w[(1 << stage) - 1 + block], c);
  }
}

template <int kStages>
inline void InverseStages(__m512i (&r)[1 << kStages], const Factors* w, const Constants& c) {
  for (int stage = kStages - 1; stage >= 0; --stage) {
    const int half = 1 << (kStages - 1 - stage);
    for (int block = 0; block < 1 << stage; ++block)
      for (int i = 0; i < half; ++i)
        Inverse(r[2 * block * half + i], r[(2 * block + 1) * half + i], w[(1 << stage) - 1 + block], c);
  }
}

// The twiddles of kStages stages from block `index` of `blocks` on.
template <int kStages>
inline void LoadTwiddles(const NarrowRoots& roots, int64_t blocks, int64_t index, Factors (&w)[(1 << kStages) - 1]) {
  for (int stage = 0; stage < kStages; ++stage)
    for (int block = 0; block < 1 << stage; ++block)
      w[(1 << stage) - 1 + block] = Broadcast(roots, ((blocks + index) << stage) + block);
}

// kStages stages over a block of `size` coefficients, a column of 2^kStages registers at a time.
template <int kStages, bool kForward>
void ColumnPass(uint64_t* x, int64_t size, int64_t blocks, int64_t index, const NarrowRoots& roots, const Constants& c) {
  Factors w[(1 << kStages) - 1];
  LoadTwiddles<kStages>(roots, blocks, index, w);
  const int64_t stride = size >> kStages;
  for (int64_t i = 0; i < stride; i += kLanes) {
    __m512i r[1 << kStages];
    for (int k = 0; k < 1 << kStages; ++k) r[k] = Load(x + k * stride + i);
    if constexpr (kForward) {
      ForwardStages<kStages>(r, w, c);
    } else {
      InverseStages<kStages>(r, w, c);
    }
    for (int k = 0; k < 1 << kStages; ++k) Store(x + k * stride + i, r[k]);
  }
}

constexpr int64_t kTile = 64;  // coefficients whose last six stages are done in eight registers

// The last six stages of a block of 64, of which there are `blocks`; the result is reduced.
inline void ForwardTile(uint64_t* x, int64_t blocks, int64_t index, const NarrowRoots& roots, const Constants& c) {
  Factors w[7];
  LoadTwiddles<3>(roots, blocks, index, w);
  __m512i r[8];
  for (int k = 0; k < 8; ++k) r[k] = Load(x + k * kLanes);
  ForwardStages<3>(r, w, c);
  for (int k = 0; k < 4; ++k) {
    __m512i &a = r[2 * k], &b = r[2 * k + 1];
    const int64_t eights = 8 * (blocks + index) + 2 * k;
    ToBlocksOf8(a, b);
    Forward(a, b, Spread<2>(roots, eights), c);
    FromBlocks8To4(a, b);
    Forward(a, b, Spread<4>(roots, 2 * eights), c);
    FromBlocks4To2(a, b);
    Forward(a, b, Spread<8>(roots, 4 * eights), c);
    ToNaturalFrom2(a, b);
    Store(x + 2 * k * kLanes, ReduceBy(ReduceBy(a, c.twice), c.q));
    Store(x + (2 * k + 1) * kLanes, ReduceBy(ReduceBy(b, c.twice), c.q));
  }
}

inline void InverseTile(uint64_t* x, int64_t blocks, int64_t index, const NarrowRoots& roots, const Constants& c) {
  Factors w[7];
  LoadTwiddles<3>(roots, blocks, index, w);
  __m512i r[8];
  for (int k = 0; k < 4; ++k) {
    __m512i a = Load(x + 2 * k * kLanes), b = Load(x + (2 * k + 1) * kLanes);
    const int64_t eights = 8 * (blocks + index) + 2 * k;
    ToBlocksOf2(a, b);
    Inverse(a, b, Spread<8>(roots, 4 * eights), c);
    FromBlocks4To2(a, b);
    Inverse(a, b, Spread<4>(roots, 2 * eights), c);
    FromBlocks8To4(a, b);
    Inverse(a, b, Spread<2>(roots, eights), c);
    ToBlocksOf8(a, b);
    r[2 * k] = a;
    r[2 * k + 1] = b;
  }
  InverseStages<3>(r, w, c);
  for (int k = 0; k < 8; ++k) Store(x + k * kLanes, r[k]);
}

// How many stages the next pass over a block of `size` takes: three, or two where three would leave a single one.
inline int PassStages(int64_t size) {
  const int left = __builtin_ctzll(static_cast<uint64_t>(size / kTile));
  return left == 1 ? 1 : left == 2 || left == 4 ? 2 : 3;
}

template <bool kForward>
void Pass(int stages, uint64_t* x, int64_t size, int64_t blocks, int64_t index, const NarrowRoots& roots,
          const Constants& c) {
  if (stages == 3) {
    ColumnPass<3, kForward>(x, size, blocks, index, roots, c);
  } else if (stages == 2) {
    ColumnPass<2, kForward>(x, size, blocks, index, roots, c);
  } else {
    ColumnPass<1, kForward>(x, size, blocks, index, roots, c);
  }
}

// Depth first: a block that fits into the cache is finished before the next one is touched.
void ForwardBlock(uint64_t* x, int64_t size, int64_t blocks, int64_t index, const NarrowRoots& roots,
                  const Constants& c) {
  if (size == kTile) return ForwardTile(x, blocks, index, roots, c);
  const int stages = PassStages(size);
  Pass<true>(stages, x, size, blocks, index, roots, c);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    ForwardBlock(x + i * part, part, blocks << stages, (index << stages) + i, roots, c);
}

void InverseBlock(uint64_t* x, int64_t size, int64_t blocks, int64_t index, const NarrowRoots& roots,
                  const Constants& c) {
  if (size == kTile) return InverseTile(x, blocks, index, roots, c);
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    InverseBlock(x + i * part, part, blocks << stages, (index << stages) + i, roots, c);
  Pass<false>(stages, x, size, blocks, index, roots, c);
}

inline Factors BroadcastFactor(Factor w) { return {Set(w.value), Set(w.companion >> 12)}; }

void ForwardNtt52(uint64_t* x, const NttTable& table) {
  if (table.narrow_roots.values.empty()) return ForwardNtt(x, table);
  ForwardBlock(x, table.degree, 1, 0, table.narrow_roots, MakeConstants(table.modulus.value));
}

void MultiplyFactorRow52(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return MultiplyFactorRow(a, w, out, n, q);
  const Constants c = MakeConstants(q.value);
  const Factors factor = BroadcastFactor(w);
  for (int64_t i = 0; i < n; i += kLanes) Store(out + i, ReduceBy(TimesLazy(Load(a + i), factor, c), c.q));
}

void InverseNtt52(uint64_t* x, const NttTable& table) {
  if (table.narrow_roots.values.empty()) return InverseNtt(x, table);
  InverseBlock(x, table.degree, 1, 0, table.narrow_inverse_roots, MakeConstants(table.modulus.value));
  MultiplyFactorRow52(x, table.inverse_degree, x, table.degree, table.modulus);
}

void SubtractMultiplyRow52(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                           const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return SubtractMultiplyRow(a, b, w, out, n, q);
  const Constants c = MakeConstants(q.value);
  const Factors factor = BroadcastFactor(w);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m512i difference = _mm512_add_epi64(Load(a + i), _mm512_sub_epi64(c.q, Load(b + i)));
    Store(out + i, ReduceBy(TimesLazy(difference, factor, c), c.q));
  }
}

// A sum of 52-bit products: low + 2^52 high.
struct Sum {
  __m512i low, high;
};

inline void AddProduct(Sum& sum, __m512i a, __m512i b) {
  sum.low = _mm512_madd52lo_epu64(sum.low, a, b);
  sum.high = _mm512_madd52hi_epu64(sum.high, a, b);
}

// What reduces such a sum: the factors 1 and 2^52 modulo q.
struct Reduction {
  Constants c;
  Factors one, word;
};

inline Reduction MakeReduction(const Modulus& q) {
  return {MakeConstants(q.value), BroadcastFactor(MakeFactor(1, q.value)),
          BroadcastFactor(MakeFactor((uint64_t{1} << 52) % q.value, q.value))};
}

// So many products of factors below 2^50 keep `high` below 2^52, with room for the carries of `low`.
constexpr int64_t kSumTerms = 15;

// Carries the upper bits of low into high, then two lazy products: reduced.
inline __m512i ReduceSum(const Sum& sum, const Reduction& r) {
  const __m512i high = _mm512_add_epi64(sum.high, _mm512_srli_epi64(sum.low, 52));
  const __m512i low = _mm512_and_si512(sum.low, r.c.mask);
  const __m512i total = _mm512_add_epi64(TimesLazy(high, r.word, r.c), TimesLazy(low, r.one, r.c));
  return ReduceBy(ReduceBy(total, r.c.twice), r.c.q);
}

void MultiplyRow52(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return MultiplyRow(a, b, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Zero(), Zero()};
    AddProduct(sum, Load(a + i), Load(b + i));
    Store(out + i, ReduceSum(sum, r));
  }
}

void MultiplyAddRow52(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                      const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return MultiplyAddRow(a, b, c, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Load(c + i), Zero()};
    AddProduct(sum, Load(a + i), Load(b + i));
    Store(out + i, ReduceSum(sum, r));
  }
}

void InnerProductRow52(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                       const Modulus& q) {
  if (q.value >= kNarrow || n % kLanes) return InnerProductRow(a, b, terms, out, n, q);
  const Reduction r = MakeReduction(q);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Zero(), Zero()};
    for (int64_t t = 0; t < terms; ++t) {
      if (t && t % (kSumTerms - 1) == 0) sum = {ReduceSum(sum, r), Zero()};
      AddProduct(sum, Load(a[t] + i), Load(b[t] + i));
    }
    Store(out + i, ReduceSum(sum, r));
  }
}

void CombineRow52(const uint64_t* const* y, const uint64_t* factors, int64_t terms, const uint64_t* v, uint64_t last,
                  uint64_t* out, int64_t n, const Modulus& q, bool narrow) {
  if (!narrow || q.value >= kNarrow || n % kLanes)
    return CombineRow(y, factors, terms, v, last, out, n, q, narrow);
  const Reduction r = MakeReduction(q);
  const __m512i last_factor = Set(last);
  for (int64_t i = 0; i < n; i += kLanes) {
    Sum sum{Zero(), Zero()};
    AddProduct(sum, Load(v + i), last_factor);
    for (int64_t t = 0; t < terms; ++t) {
      if (t && t % (kSumTerms - 2) == 0) sum = {ReduceSum(sum, r), Zero()};
      AddProduct(sum, Load(y[t] + i), Set(factors[t]));
    }
    Store(out + i, ReduceSum(sum, r));
  }
}

void OverflowRow52(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  if (terms == 1 || n % kLanes) return OverflowRow(y, limbs, terms, v, n);
  for (int64_t i = 0; i < n; i += kLanes) {
    __m512i sum = Set(uint64_t{1} << 50);
    for (int64_t t = 0; t < terms; ++t) {
      const __m512i up = _mm512_slli_epi64(Load(y[t] + i), static_cast<unsigned>(limbs[t].left));
      const __m512i top = _mm512_srli_epi64(up, static_cast<unsigned>(limbs[t].right));
      sum = _mm512_madd52hi_epu64(sum, top, Set(limbs[t].ratio));
    }
    Store(v + i, _mm512_srli_epi64(sum, 51));
  }
}

}  // namespace

extern const Kernels kIfma = {
    "avx512ifma",
    50,
    ForwardNtt52,
    InverseNtt52,
    AddRow,
    SubtractRow,
    NegateRow,
    MultiplyRow52,
    MultiplyAddRow52,
    MultiplyFactorRow52,
    SubtractMultiplyRow52,
    InnerProductRow52,
    CombineRow52,
    OverflowRow52,
    ChaCha20Blocks,
};

}  // namespace fhejax
