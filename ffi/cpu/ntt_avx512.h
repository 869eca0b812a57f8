// Transforms on eight lanes, for any arithmetic that provides butterflies: passes over columns of registers down to
// tiles of 128 coefficients, whose last seven stages are done in sixteen registers.
//
// An Arithmetic has Factors {value, companion} of eight lanes, and, each on registers:
//   Forward(x, y, w)          (x + w y, x - w y), within the range that it keeps between stages
//   ReduceForward(x)          from that range to [0, q)
//   Inverse<kSum>(x, y, w)    (x + y, w (x - y)) for inputs below 4q 2^kSum
//   LeaveInverse<kSum>(x)     below 2q 2^kSum -> below 4q
//   InverseEnd<kSum>(x, y, scale, w)  the last stage, as Inverse: (scale (x + y), w (x - y)), reduced; w includes scale
// A sum doubles the bound and a product is below 2q, so bounds are known for each register when this is compiled; an
// arithmetic that keeps its range at every stage makes no use of them.
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"
#include "cpu/unroll.h"

namespace fhejax {
namespace {

constexpr int64_t kLanes = 8;
constexpr int kTileStages = 4, kTileRegisters = 1 << kTileStages;  // and three stages inside registers
constexpr int64_t kTile = kTileRegisters * kLanes;
constexpr int64_t kLeastRow = 2 * kTile;  // what these transforms take: a tile and a pass
constexpr int64_t kShared = 1 << 15;  // a block whose twiddles and data stay in the cache from row to row
constexpr int64_t kAheadTiles = 2;    // how far ahead of their tile twiddles are asked for

using Vector = __m512i;

FHEJAX_FORCE_INLINE Vector Set(uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
FHEJAX_FORCE_INLINE Vector Load(const uint64_t* x) { return _mm512_loadu_si512(x); }
FHEJAX_FORCE_INLINE void Store(uint64_t* x, Vector value) { _mm512_storeu_si512(x, value); }
FHEJAX_FORCE_INLINE Vector Zero() { return _mm512_setzero_si512(); }

// [0, 2m) -> [0, m).
FHEJAX_FORCE_INLINE Vector ReduceBy(Vector x, Vector m) { return _mm512_min_epu64(x, _mm512_sub_epi64(x, m)); }

template <typename A>
FHEJAX_FORCE_INLINE typename A::Factors Broadcast(const Roots& roots, int64_t i) {
  return {Set(roots.values[i]), Set(roots.companions[i])};
}

// The twiddles of kStages stages from block `index` of `blocks` on: those of stage s from 2^s - 1 on.
template <typename A, int kStages>
struct Twiddles {
  typename A::Factors w[(1 << kStages) - 1];

  FHEJAX_FORCE_INLINE Twiddles(const Roots& roots, int64_t blocks, int64_t index) {
    Unroll<kStages>(FHEJAX_EACH(s) {
      Unroll<(1 << s)>(FHEJAX_EACH(b) { w[(1 << s) - 1 + b] = Broadcast<A>(roots, ((blocks + index) << s) + b); });
    });
  }

  template <int kStage, int kBlock>
  FHEJAX_FORCE_INLINE const typename A::Factors& At() const {
    return w[(1 << kStage) - 1 + kBlock];
  }
};

// The same, read where they are used: for what is done once for each of them.
template <typename A>
struct TwiddlesInMemory {
  const Roots& roots;
  int64_t first;  // block `index` of `blocks`: their sum

  template <int kStage, int kBlock>
  FHEJAX_FORCE_INLINE typename A::Factors At() const {
    return Broadcast<A>(roots, (first << kStage) + kBlock);
  }
};

struct Nothing {  // what stages do beside their butterflies
  template <typename Index>
  FHEJAX_FORCE_INLINE void operator()(Index) const {}
};

// Butterflies between 2^kStages groups of kColumns registers, r[group * kColumns + column]; before(s) comes before
// stage s.
template <typename A, int kStages, int kColumns, typename Twiddle, typename Before = Nothing>
FHEJAX_FORCE_INLINE void ForwardStages(Vector (&r)[kColumns << kStages], const Twiddle& t, const A& a,
                                       const Before& before = {}) {
  Unroll<kStages>(FHEJAX_EACH(s) {
    before(s);
    constexpr int kHalf = kColumns << (kStages - 1 - s);
    Unroll<(kColumns << (kStages - 1))>(FHEJAX_EACH(i) {
      constexpr int kBlock = i / kHalf, kFirst = 2 * kBlock * kHalf + i % kHalf;
      a.Forward(r[kFirst], r[kFirst + kHalf], t.template At<s, kBlock>());
    });
  });
}

// The same backwards, over stages kStages - 1 .. kLast; kSum stages of sums were before. before(done) comes before a
// stage, after `done` others.
template <typename A, int kStages, int kColumns, int kSum, int kLast, typename Twiddle, typename Before = Nothing>
FHEJAX_FORCE_INLINE void InverseStages(Vector (&r)[kColumns << kStages], const Twiddle& t, const A& a,
                                       const Before& before = {}) {
  Unroll<kStages - kLast>(FHEJAX_EACH(done) {
    before(done);
    constexpr int kStage = kStages - 1 - done, kHalf = kColumns << (kStages - 1 - kStage);
    Unroll<(kColumns << (kStages - 1))>(FHEJAX_EACH(i) {
      constexpr int kBlock = i / kHalf, kFirst = 2 * kBlock * kHalf + i % kHalf;
      a.template Inverse<kSum + done>(r[kFirst], r[kFirst + kHalf], t.template At<kStage, kBlock>());
    });
  });
}

// Group 0, below 4q 2^kSum at first, has been a sum at every stage; group g was a product, then a sum in as many last
// stages as g has leading zeros.
template <typename A, int kStages, int kColumns, int kSum>
FHEJAX_FORCE_INLINE void LeaveInverse(Vector (&r)[kColumns << kStages], const A& a) {
  Unroll<(kColumns << kStages)>(FHEJAX_EACH(i) {
    constexpr int kGroup = i / kColumns;
    if constexpr (kGroup == 0) {
      r[i] = a.template LeaveInverse<kSum + kStages + 1>(r[i]);
    } else {
      constexpr int kZeros = kStages - (32 - __builtin_clz(kGroup));
      r[i] = a.template LeaveInverse<kZeros>(r[i]);
    }
  });
}

// 2^kStages groups of kColumns registers, the groups `stride` words apart.
template <int kStages, int kColumns>
FHEJAX_FORCE_INLINE void LoadColumns(const uint64_t* x, int64_t stride, Vector (&r)[kColumns << kStages]) {
  Unroll<(kColumns << kStages)>(FHEJAX_EACH(k) { r[k] = Load(x + k / kColumns * stride + k % kColumns * kLanes); });
}
template <int kStages, int kColumns>
FHEJAX_FORCE_INLINE void StoreColumns(uint64_t* x, int64_t stride, const Vector (&r)[kColumns << kStages]) {
  Unroll<(kColumns << kStages)>(FHEJAX_EACH(k) { Store(x + k / kColumns * stride + k % kColumns * kLanes, r[k]); });
}

// kStages stages of one block of `size` coefficients.
template <typename A, int kStages>
void ForwardPass(const uint64_t* from, uint64_t* to, int64_t size, int64_t blocks, int64_t index, const Roots& roots,
                 const A& a) {
  constexpr int kColumns = kStages == 2 ? 4 : 8;
  const Twiddles<A, kStages> t(roots, blocks, index);
  const int64_t stride = size >> kStages;
  for (int64_t i = 0; i < stride; i += kColumns * kLanes) {
    Vector r[kColumns << kStages];
    LoadColumns<kStages, kColumns>(from + i, stride, r);
    ForwardStages<A, kStages, kColumns>(r, t, a);
    StoreColumns<kStages, kColumns>(to + i, stride, r);
  }
}

// What the last stage multiplies by: the scale, and the scale times the last twiddle.
template <typename A>
struct Scaling {
  typename A::Factors scale, twiddle;
};

// kEnd says that these stages are the transform's last.
template <typename A, int kStages, bool kEnd>
void InversePass(const uint64_t* from, uint64_t* to, int64_t size, int64_t blocks, int64_t index, const Roots& roots,
                 const Scaling<A>& scaling, const A& a) {
  constexpr int kColumns = kStages == 2 ? 4 : 8;
  const Twiddles<A, kStages> t(roots, blocks, index);
  const int64_t stride = size >> kStages;
  for (int64_t i = 0; i < stride; i += kColumns * kLanes) {
    Vector r[kColumns << kStages];
    LoadColumns<kStages, kColumns>(from + i, stride, r);
    InverseStages<A, kStages, kColumns, 0, kEnd ? 1 : 0>(r, t, a);
    if constexpr (kEnd) {
      constexpr int kHalf = kColumns << (kStages - 1);
      Unroll<kHalf>(FHEJAX_EACH(k) {
        a.template InverseEnd<kStages - 1>(r[k], r[k + kHalf], scaling.scale, scaling.twiddle);
      });
    } else {
      LeaveInverse<A, kStages, kColumns, 0>(r, a);
    }
    StoreColumns<kStages, kColumns>(to + i, stride, r);
  }
}

// For blocks of 8, 4 and 2 coefficients inside two registers: the twiddles of 2, 4 and 8 blocks, spread over the lanes.
template <typename A, int kBlocks>
FHEJAX_FORCE_INLINE typename A::Factors Spread(const Roots& roots, int64_t first) {
  const uint64_t *const values = roots.values.data() + first, *const companions = roots.companions.data() + first;
  if constexpr (kBlocks == 8) {
    return {Load(values), Load(companions)};
  } else if constexpr (kBlocks == 4) {
    const Vector index = _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3);
    const auto load = [&](const uint64_t* x) __attribute__((always_inline)) {
      const __m256i four = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
      return _mm512_permutexvar_epi64(index, _mm512_castsi256_si512(four));
    };
    return {load(values), load(companions)};
  } else {
    const auto load = [&](const uint64_t* x) __attribute__((always_inline)) {
      return _mm512_mask_set1_epi64(Set(x[0]), 0xF0, static_cast<long long>(x[1]));
    };
    return {load(values), load(companions)};
  }
}

// 16 values in natural order, a and b, to (first halves, second halves) of the blocks of 8, then of 4, then of 2, and
// back: the shuffles between the last three stages.
FHEJAX_FORCE_INLINE void ToBlocksOf8(Vector& a, Vector& b) {
  const Vector x = _mm512_shuffle_i64x2(a, b, 0x44);
  b = _mm512_shuffle_i64x2(a, b, 0xEE);
  a = x;
}

FHEJAX_FORCE_INLINE void FromBlocks8To4(Vector& a, Vector& b) {  // its own inverse
  const Vector x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b);
  a = x;
}

FHEJAX_FORCE_INLINE void FromBlocks4To2(Vector& a, Vector& b) {  // its own inverse
  const Vector x = _mm512_unpacklo_epi64(a, b);
  b = _mm512_unpackhi_epi64(a, b);
  a = x;
}

FHEJAX_FORCE_INLINE void ToNaturalFrom2(Vector& a, Vector& b) {
  const Vector x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
  a = x;
}

FHEJAX_FORCE_INLINE void ToBlocksOf2(Vector& a, Vector& b) {  // the inverse of ToNaturalFrom2
  const Vector x = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
  b = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
  a = x;
}

FHEJAX_FORCE_INLINE void Prefetch(const uint64_t* x) { _mm_prefetch(reinterpret_cast<const char*>(x), _MM_HINT_T0); }

// A tile asks for memory ahead in equal shares, one before each stage: a burst of requests makes the processor wait.
constexpr int kShares = kTileStages + 3;

// Rows that will be read after some tiles, asked for evenly while these are computed. The place is kept in a register
// for a whole share: a counter in memory takes longer than a request.
class Requests {
 public:
  Requests(const Ahead& ahead, int64_t tiles)
      : row_(ahead.rows), last_(ahead.rows + ahead.count), words_(ahead.words),
        each_((ahead.count * ahead.words / kLanes + kShares * tiles - 1) / (kShares * tiles)) {}

  FHEJAX_FORCE_INLINE void Next() {
    if (row_ == last_) return;
    const uint64_t *next = *row_ + done_, *end = *row_ + words_;
    for (int64_t i = 0; i < each_; ++i) {
      Prefetch(next);
      next += kLanes;
      if (next < end) continue;
      if (++row_ == last_) return;
      next = *row_, end = next + words_;
    }
    done_ = next - *row_;
  }

 private:
  const uint64_t* const* row_;
  const uint64_t* const* const last_;
  const int64_t words_, each_;
  int64_t done_ = 0;
};

// A share of the twiddles that a tile takes one by one, ahead of the tile that takes them: they come in eight streams,
// each too slow for the processor to run far ahead of.
template <int kShare>
FHEJAX_FORCE_INLINE void PrefetchTwiddles(const Roots& roots, int64_t eights) {
  const uint64_t *const values = roots.values.data(), *const companions = roots.companions.data();
  Unroll<kTileRegisters / 2>(FHEJAX_EACH(k) {
    if constexpr (k % kShares == kShare) {
      Prefetch(values + 4 * eights + k * kLanes);
      Prefetch(companions + 4 * eights + k * kLanes);
    }
  });
  Unroll<kTileRegisters / 4>(FHEJAX_EACH(k) {
    if constexpr (k % kShares == kShare) {
      Prefetch(values + 2 * eights + k * kLanes);
      Prefetch(companions + 2 * eights + k * kLanes);
    }
  });
}

// A share of the coefficients that a tile reads and, elsewhere, writes.
template <int kShare>
FHEJAX_FORCE_INLINE void PrefetchTile(const uint64_t* from, uint64_t* to) {
  Unroll<kTileRegisters>(FHEJAX_EACH(k) {
    if constexpr (k % kShares == kShare) {
      Prefetch(from + k * kLanes);
      if (from != to) __builtin_prefetch(to + k * kLanes, 1);
    }
  });
}

// The last stages of a block of kTile coefficients, of which there are `blocks`; the result is reduced.
template <typename A>
FHEJAX_FORCE_INLINE void ForwardTile(uint64_t* x, int64_t blocks, int64_t index, const Roots& roots, const A& a,
                                     Requests* requests) {
  Vector r[kTileRegisters];
  constexpr int kPairs = kTileRegisters / 2;
  const int64_t eights = kTileRegisters * (blocks + index);
  const auto ask = [&](auto share) __attribute__((always_inline)) {
    PrefetchTwiddles<share>(roots, eights + kTileRegisters * kAheadTiles);
    if (requests) requests->Next();
  };
  Unroll<kTileRegisters>(FHEJAX_EACH(k) { r[k] = Load(x + k * kLanes); });
  ForwardStages<A, kTileStages, 1>(r, TwiddlesInMemory<A>{roots, blocks + index}, a, ask);
  // Stage by stage over all pairs: independent butterflies hide each other's latency.
  ask(std::integral_constant<int, kTileStages>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { ToBlocksOf8(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) { a.Forward(r[2 * k], r[2 * k + 1], Spread<A, 2>(roots, eights + 2 * k)); });
  ask(std::integral_constant<int, kTileStages + 1>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { FromBlocks8To4(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) { a.Forward(r[2 * k], r[2 * k + 1], Spread<A, 4>(roots, 2 * eights + 4 * k)); });
  ask(std::integral_constant<int, kTileStages + 2>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { FromBlocks4To2(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) { a.Forward(r[2 * k], r[2 * k + 1], Spread<A, 8>(roots, 4 * eights + 8 * k)); });
  Unroll<kPairs>(FHEJAX_EACH(k) { ToNaturalFrom2(r[2 * k], r[2 * k + 1]); });
  Unroll<kTileRegisters>(FHEJAX_EACH(k) { Store(x + k * kLanes, a.ReduceForward(r[k])); });
}

// The first stages of a block of kTile reduced residues, below q = 4q 2^-2.
template <typename A>
FHEJAX_FORCE_INLINE void InverseTile(const uint64_t* from, uint64_t* to, int64_t blocks, int64_t index,
                                     const Roots& roots, const A& a) {
  Vector r[kTileRegisters];
  constexpr int kPairs = kTileRegisters / 2, kInside = 3;
  const int64_t eights = kTileRegisters * (blocks + index);
  const auto ask = [&](auto share) __attribute__((always_inline)) {
    PrefetchTwiddles<share>(roots, eights + kTileRegisters * kAheadTiles);
    PrefetchTile<share>(from + kTile * kAheadTiles, to + kTile * kAheadTiles);
  };
  Unroll<kTileRegisters>(FHEJAX_EACH(k) { r[k] = Load(from + k * kLanes); });
  ask(std::integral_constant<int, 0>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { ToBlocksOf2(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    a.template Inverse<-2>(r[2 * k], r[2 * k + 1], Spread<A, 8>(roots, 4 * eights + 8 * k));
  });
  ask(std::integral_constant<int, 1>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { FromBlocks4To2(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    a.template Inverse<-1>(r[2 * k], r[2 * k + 1], Spread<A, 4>(roots, 2 * eights + 4 * k));
  });
  ask(std::integral_constant<int, 2>{});
  Unroll<kPairs>(FHEJAX_EACH(k) { FromBlocks8To4(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    a.template Inverse<0>(r[2 * k], r[2 * k + 1], Spread<A, 2>(roots, eights + 2 * k));
  });
  Unroll<kPairs>(FHEJAX_EACH(k) { ToBlocksOf8(r[2 * k], r[2 * k + 1]); });
  InverseStages<A, kTileStages, 1, 1, 0>(
      r, TwiddlesInMemory<A>{roots, blocks + index}, a,
      FHEJAX_EACH(done) { ask(std::integral_constant<int, kInside + done>{}); });
  LeaveInverse<A, kTileStages, 1, 1>(r, a);
  Unroll<kTileRegisters>(FHEJAX_EACH(k) { Store(to + k * kLanes, r[k]); });
}

// How many stages the next pass over a block of `size` takes: two leave registers for four columns, whose butterflies
// hide each other's latency.
FHEJAX_FORCE_INLINE int PassStages(int64_t size) { return size == 2 * kTile ? 1 : 2; }

template <typename A>
void ForwardPassOf(int stages, const uint64_t* from, uint64_t* to, int64_t size, int64_t blocks, int64_t index,
                   const Roots& roots, const A& a) {
  if (stages == 2) return ForwardPass<A, 2>(from, to, size, blocks, index, roots, a);
  ForwardPass<A, 1>(from, to, size, blocks, index, roots, a);
}

// Depth first: a block that fits into the cache is finished before the next one is touched.
template <typename A>
void ForwardBlock(const uint64_t* from, uint64_t* to, int64_t size, int64_t blocks, int64_t index, const Roots& roots,
                  const A& a, Requests* requests = nullptr) {
  if (size == kTile) return ForwardTile(to, blocks, index, roots, a, requests);
  const int stages = PassStages(size);
  ForwardPassOf(stages, from, to, size, blocks, index, roots, a);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    ForwardBlock(to + i * part, to + i * part, part, blocks << stages, (index << stages) + i, roots, a, requests);
}

// All stages over blocks larger than a part, and all others over one part.
template <typename A>
void HeadRows(uint64_t* const* rows, int64_t count, int64_t n, const Roots& roots, const A& a) {
  for (int64_t row = 0; row < count; ++row)
    for (int64_t size = n, blocks = 1; size > PartOf(n); size /= 4, blocks *= 4)
      for (int64_t index = 0; index < blocks; ++index)
        ForwardPass<A, 2>(rows[row] + index * size, rows[row] + index * size, size, blocks, index, roots, a);
}

template <typename A>
void TailRows(uint64_t* const* rows, int64_t count, int64_t part, int64_t n, const Roots& roots, const A& a,
              const Ahead& ahead) {
  const int64_t size = PartOf(n);
  Requests requests(ahead, count * size / kTile);
  for (int64_t row = 0; row < count; ++row)
    ForwardBlock(rows[row] + part * size, rows[row] + part * size, size, n / size, part, roots, a, &requests);
}

// All rows together, as long as a block is larger than what stays in the cache.
template <typename A>
void ForwardRows(const uint64_t* const* from, uint64_t* const* to, int64_t rows, int64_t first, int64_t size,
                 int64_t blocks, int64_t index, const Roots& roots, const A& a) {
  if (size <= kShared || rows == 1) {
    for (int64_t row = 0; row < rows; ++row)
      ForwardBlock(from[row] + first, to[row] + first, size, blocks, index, roots, a);
    return;
  }
  const int stages = PassStages(size);
  for (int64_t row = 0; row < rows; ++row)
    ForwardPassOf(stages, from[row] + first, to[row] + first, size, blocks, index, roots, a);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    ForwardRows(to, to, rows, first + i * part, part, blocks << stages, (index << stages) + i, roots, a);
}

template <typename A>
void InversePassOf(int stages, uint64_t* x, int64_t size, int64_t blocks, int64_t index, const Roots& roots,
                   const Scaling<A>& scaling, const A& a) {
  if (blocks == 1) {
    if (stages == 2) return InversePass<A, 2, true>(x, x, size, blocks, index, roots, scaling, a);
    return InversePass<A, 1, true>(x, x, size, blocks, index, roots, scaling, a);
  }
  if (stages == 2) return InversePass<A, 2, false>(x, x, size, blocks, index, roots, scaling, a);
  InversePass<A, 1, false>(x, x, size, blocks, index, roots, scaling, a);
}

template <typename A>
void InverseBlock(const uint64_t* from, uint64_t* to, int64_t size, int64_t blocks, int64_t index, const Roots& roots,
                  const Scaling<A>& scaling, const A& a) {
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i) {
    if (part == kTile) {
      InverseTile(from + i * part, to + i * part, blocks << stages, (index << stages) + i, roots, a);
    } else {
      InverseBlock(from + i * part, to + i * part, part, blocks << stages, (index << stages) + i, roots, scaling, a);
    }
  }
  InversePassOf(stages, to, size, blocks, index, roots, scaling, a);
}

template <typename A>
void InverseRows(const uint64_t* const* from, uint64_t* const* to, int64_t rows, int64_t first, int64_t size,
                 int64_t blocks, int64_t index, const Roots& roots, const Scaling<A>& scaling, const A& a) {
  if (size <= kShared || rows == 1) {
    for (int64_t row = 0; row < rows; ++row)
      InverseBlock(from[row] + first, to[row] + first, size, blocks, index, roots, scaling, a);
    return;
  }
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    InverseRows(from, to, rows, first + i * part, part, blocks << stages, (index << stages) + i, roots, scaling, a);
  for (int64_t row = 0; row < rows; ++row)
    InversePassOf(stages, to[row] + first, size, blocks, index, roots, scaling, a);
}

}  // namespace
}  // namespace fhejax
