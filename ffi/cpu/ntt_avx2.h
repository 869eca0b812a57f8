// Transforms on four lanes, for any arithmetic that provides butterflies: passes of two stages (or one) over columns of
// registers, depth first, down to tiles of 32 coefficients, whose last five stages are done in eight registers.
//
// An Arithmetic has Factors, MakeFactors(values, companions) from vectors of them, and, each on registers:
//   Enter(x)                        from [0, q) to the range that it keeps between passes
//   Forward<kReduce>(x, y, w)       (x + w y, x - w y); kReduce in the first stage of a pass and in every second one
//   LeaveForward(x)                 from that range to [0, q)
//   Inverse(x, y, w)                (x + y, w (x - y))
//   InverseEnd(x, y, scale, w)      the last stage, as Inverse: (scale (x + y), w (x - y)) in [0, q); w includes scale
#pragma once

#include <immintrin.h>

#include "cpu/kernels.h"
#include "cpu/unroll.h"

namespace fhejax {
namespace {

constexpr int64_t kLanes = 4;
constexpr int kRegisters = 8, kPairs = kRegisters / 2;
constexpr int64_t kTile = kRegisters * kLanes;
constexpr int64_t kLeastRow = 2 * kTile;      // the shortest row that these transforms take
constexpr int64_t kShared = int64_t{1} << 11;  // a block that stays in the cache with its twiddles, from row to row

using Vector = __m256i;

FHEJAX_FORCE_INLINE Vector Set(uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
FHEJAX_FORCE_INLINE Vector Load(const uint64_t* x) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)); }
FHEJAX_FORCE_INLINE void Store(uint64_t* x, Vector value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(x), value);
}
FHEJAX_FORCE_INLINE Vector Add(Vector x, Vector y) { return _mm256_add_epi64(x, y); }
FHEJAX_FORCE_INLINE Vector Subtract(Vector x, Vector y) { return _mm256_sub_epi64(x, y); }

template <typename A>
FHEJAX_FORCE_INLINE typename A::Factors Broadcast(const Roots& roots, int64_t i, const A& a) {
  return a.MakeFactors(Set(roots.values[i]), Set(roots.companions[i]));
}

// The twiddles of four blocks of 2, or of two blocks of 4 spread over the lanes.
template <typename A>
FHEJAX_FORCE_INLINE typename A::Factors FourTwiddles(const Roots& roots, int64_t i, const A& a) {
  return a.MakeFactors(Load(&roots.values[i]), Load(&roots.companions[i]));
}

FHEJAX_FORCE_INLINE Vector SpreadTwo(const uint64_t* x) {
  const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm256_permute4x64_epi64(_mm256_castsi128_si256(two), 0x50);
}

template <typename A>
FHEJAX_FORCE_INLINE typename A::Factors TwoTwiddles(const Roots& roots, int64_t i, const A& a) {
  return a.MakeFactors(SpreadTwo(&roots.values[i]), SpreadTwo(&roots.companions[i]));
}

// Eight values in natural order, x and y, to the (first halves, second halves) of blocks of 4; its own inverse.
FHEJAX_FORCE_INLINE void ExchangeHalves(Vector& x, Vector& y) {
  const Vector first = _mm256_permute2x128_si256(x, y, 0x20);
  y = _mm256_permute2x128_si256(x, y, 0x31);
  x = first;
}

// The same from blocks of 4 to blocks of 2, and its own inverse.
FHEJAX_FORCE_INLINE void ExchangeWords(Vector& x, Vector& y) {
  const Vector first = _mm256_unpacklo_epi64(x, y);
  y = _mm256_unpackhi_epi64(x, y);
  x = first;
}

// Stage kStage pairs eight registers in blocks of 8, 4 or 2 of them.
template <int kStage>
struct Paired {
  static constexpr int kHalf = kPairs >> kStage;
  static constexpr int Block(int pair) { return pair / kHalf; }
  static constexpr int First(int pair) { return 2 * Block(pair) * kHalf + pair % kHalf; }
  static constexpr int Second(int pair) { return First(pair) + kHalf; }
};

// The twiddles of two stages from a block on.
template <typename A>
struct Twiddles {
  typename A::Factors top, left, right;

  FHEJAX_FORCE_INLINE Twiddles(const Roots& roots, int64_t node, const A& a)
      : top(Broadcast(roots, node, a)),
        left(Broadcast(roots, 2 * node, a)),
        right(Broadcast(roots, 2 * node + 1, a)) {}

  template <int kStage, int kBlock>
  FHEJAX_FORCE_INLINE const typename A::Factors& At() const {
    return kStage == 0 ? top : kBlock == 0 ? left : right;
  }
};

// The same, read where they are used: for what is done once for each of them.
template <typename A>
struct TwiddlesInMemory {
  const Roots& roots;
  int64_t node;
  const A& a;

  template <int kStage, int kBlock>
  FHEJAX_FORCE_INLINE typename A::Factors At() const {
    return Broadcast(roots, (node << kStage) + kBlock, a);
  }
};

// Stage by stage over all pairs: independent butterflies hide each other's latency.
template <typename A, int kStages, typename Twiddle>
FHEJAX_FORCE_INLINE void ForwardStages(Vector (&r)[kRegisters], const Twiddle& t, const A& a) {
  Unroll<kStages>(FHEJAX_EACH(s) {
    Unroll<kPairs>(FHEJAX_EACH(k) {
      using P = Paired<s>;
      a.template Forward<s % 2 == 0>(r[P::First(k)], r[P::Second(k)], t.template At<s, P::Block(k)>());
    });
  });
}

// Stages kStages - 1 .. kLast.
template <typename A, int kStages, int kLast, typename Twiddle>
FHEJAX_FORCE_INLINE void InverseStages(Vector (&r)[kRegisters], const Twiddle& t, const A& a) {
  Unroll<kStages - kLast>(FHEJAX_EACH(done) {
    constexpr int kStage = kStages - 1 - done;
    Unroll<kPairs>(FHEJAX_EACH(k) {
      using P = Paired<kStage>;
      a.Inverse(r[P::First(k)], r[P::Second(k)], t.template At<kStage, P::Block(k)>());
    });
  });
}

// The place of register k in a pass over 2^kStages parts of a block, `stride` coefficients each.
template <int kStages>
FHEJAX_FORCE_INLINE int64_t PlaceOf(int k, int64_t stride) {
  constexpr int kColumns = kRegisters >> kStages;
  return k / kColumns * stride + k % kColumns * kLanes;
}

// kEnter in the first pass of a transform.
template <typename A, int kStages, bool kEnter>
void ForwardPass(const uint64_t* from, uint64_t* to, int64_t size, int64_t node, const Roots& roots, const A& a) {
  const Twiddles<A> t(roots, node, a);
  const int64_t stride = size >> kStages;
  for (int64_t i = 0; i < stride; i += kTile >> kStages) {
    Vector r[kRegisters];
    Unroll<kRegisters>(FHEJAX_EACH(k) {
      const Vector x = Load(from + i + PlaceOf<kStages>(k, stride));
      r[k] = kEnter ? a.Enter(x) : x;
    });
    ForwardStages<A, kStages>(r, t, a);
    Unroll<kRegisters>(FHEJAX_EACH(k) { Store(to + i + PlaceOf<kStages>(k, stride), r[k]); });
  }
}

template <typename A>
FHEJAX_FORCE_INLINE void ForwardTile(uint64_t* x, int64_t node, const Roots& roots, const A& a) {
  Vector r[kRegisters];
  Unroll<kRegisters>(FHEJAX_EACH(k) { r[k] = Load(x + k * kLanes); });
  ForwardStages<A, 3>(r, TwiddlesInMemory<A>{roots, node, a}, a);
  Unroll<kPairs>(FHEJAX_EACH(k) { ExchangeHalves(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    a.template Forward<false>(r[2 * k], r[2 * k + 1], TwoTwiddles(roots, 8 * node + 2 * k, a));
  });
  Unroll<kPairs>(FHEJAX_EACH(k) { ExchangeWords(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    a.template Forward<true>(r[2 * k], r[2 * k + 1], FourTwiddles(roots, 16 * node + 4 * k, a));
  });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    Vector &first = r[2 * k], &second = r[2 * k + 1];
    first = a.LeaveForward(first);
    second = a.LeaveForward(second);
    ExchangeWords(first, second);
    ExchangeHalves(first, second);
    Store(x + 2 * k * kLanes, first);
    Store(x + (2 * k + 1) * kLanes, second);
  });
}

// How many stages the next pass over a block of `size` takes.
FHEJAX_FORCE_INLINE int PassStages(int64_t size) {
  return __builtin_ctzll(static_cast<uint64_t>(size / kTile)) % 2 ? 1 : 2;
}

template <typename A>
void ForwardPassOf(const uint64_t* from, uint64_t* to, int64_t size, int64_t node, const Roots& roots, const A& a) {
  const bool two = PassStages(size) == 2;
  const auto pass = node == 1 ? (two ? ForwardPass<A, 2, true> : ForwardPass<A, 1, true>)
                              : (two ? ForwardPass<A, 2, false> : ForwardPass<A, 1, false>);
  pass(from, to, size, node, roots, a);
}

// Depth first: a block that fits into the cache is finished before the next one is touched. `node` numbers the blocks
// as a heap does: 1 is the whole row, and 2 node and 2 node + 1 are the halves of a block.
template <typename A>
void ForwardBlock(const uint64_t* from, uint64_t* to, int64_t size, int64_t node, const Roots& roots, const A& a) {
  ForwardPassOf(from, to, size, node, roots, a);
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i) {
    if (part == kTile) {
      ForwardTile(to + i * part, (node << stages) + i, roots, a);
    } else {
      ForwardBlock(to + i * part, to + i * part, part, (node << stages) + i, roots, a);
    }
  }
}

// All rows together, as long as a block is larger than what stays in the cache.
template <typename A>
void ForwardRows(const uint64_t* const* from, uint64_t* const* to, int64_t rows, int64_t first, int64_t size,
                 int64_t node, const Roots& roots, const A& a) {
  if (size <= kShared || rows == 1) {
    for (int64_t row = 0; row < rows; ++row) ForwardBlock(from[row] + first, to[row] + first, size, node, roots, a);
    return;
  }
  for (int64_t row = 0; row < rows; ++row) ForwardPassOf(from[row] + first, to[row] + first, size, node, roots, a);
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    ForwardRows(to, to, rows, first + i * part, part, (node << stages) + i, roots, a);
}

template <typename A>
FHEJAX_FORCE_INLINE void InverseTile(const uint64_t* from, uint64_t* to, int64_t node, const Roots& roots, const A& a) {
  Vector r[kRegisters];
  Unroll<kRegisters>(FHEJAX_EACH(k) { r[k] = a.Enter(Load(from + k * kLanes)); });
  Unroll<kPairs>(FHEJAX_EACH(k) {
    ExchangeHalves(r[2 * k], r[2 * k + 1]);
    ExchangeWords(r[2 * k], r[2 * k + 1]);
  });
  Unroll<kPairs>(FHEJAX_EACH(k) { a.Inverse(r[2 * k], r[2 * k + 1], FourTwiddles(roots, 16 * node + 4 * k, a)); });
  Unroll<kPairs>(FHEJAX_EACH(k) { ExchangeWords(r[2 * k], r[2 * k + 1]); });
  Unroll<kPairs>(FHEJAX_EACH(k) { a.Inverse(r[2 * k], r[2 * k + 1], TwoTwiddles(roots, 8 * node + 2 * k, a)); });
  Unroll<kPairs>(FHEJAX_EACH(k) { ExchangeHalves(r[2 * k], r[2 * k + 1]); });
  InverseStages<A, 3, 0>(r, TwiddlesInMemory<A>{roots, node, a}, a);
  Unroll<kRegisters>(FHEJAX_EACH(k) { Store(to + k * kLanes, r[k]); });
}

// What the last stage multiplies by: the scale, and the scale times the last twiddle.
template <typename A>
struct Scaling {
  typename A::Factors scale, twiddle;
};

// kEnd says that these stages are the transform's last.
template <typename A, int kStages, bool kEnd>
void InversePass(uint64_t* x, int64_t size, int64_t node, const Roots& roots, const Scaling<A>& scaling, const A& a) {
  const Twiddles<A> t(roots, node, a);
  const int64_t stride = size >> kStages;
  for (int64_t i = 0; i < stride; i += kTile >> kStages) {
    Vector r[kRegisters];
    Unroll<kRegisters>(FHEJAX_EACH(k) { r[k] = Load(x + i + PlaceOf<kStages>(k, stride)); });
    InverseStages<A, kStages, kEnd ? 1 : 0>(r, t, a);
    if constexpr (kEnd)
      Unroll<kPairs>(FHEJAX_EACH(k) { a.InverseEnd(r[k], r[k + kPairs], scaling.scale, scaling.twiddle); });
    Unroll<kRegisters>(FHEJAX_EACH(k) { Store(x + i + PlaceOf<kStages>(k, stride), r[k]); });
  }
}

template <typename A>
void InversePassOf(uint64_t* x, int64_t size, int64_t node, const Roots& roots, const Scaling<A>& scaling, const A& a) {
  const bool two = PassStages(size) == 2;
  const auto pass = node == 1 ? (two ? InversePass<A, 2, true> : InversePass<A, 1, true>)
                              : (two ? InversePass<A, 2, false> : InversePass<A, 1, false>);
  pass(x, size, node, roots, scaling, a);
}

template <typename A>
void InverseBlock(const uint64_t* from, uint64_t* to, int64_t size, int64_t node, const Roots& roots,
                  const Scaling<A>& scaling, const A& a) {
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i) {
    if (part == kTile) {
      InverseTile(from + i * part, to + i * part, (node << stages) + i, roots, a);
    } else {
      InverseBlock(from + i * part, to + i * part, part, (node << stages) + i, roots, scaling, a);
    }
  }
  InversePassOf(to, size, node, roots, scaling, a);
}

template <typename A>
void InverseRows(const uint64_t* const* from, uint64_t* const* to, int64_t rows, int64_t first, int64_t size,
                 int64_t node, const Roots& roots, const Scaling<A>& scaling, const A& a) {
  if (size <= kShared || rows == 1) {
    for (int64_t row = 0; row < rows; ++row)
      InverseBlock(from[row] + first, to[row] + first, size, node, roots, scaling, a);
    return;
  }
  const int stages = PassStages(size);
  const int64_t part = size >> stages;
  for (int64_t i = 0; i < 1 << stages; ++i)
    InverseRows(from, to, rows, first + i * part, part, (node << stages) + i, roots, scaling, a);
  for (int64_t row = 0; row < rows; ++row) InversePassOf(to[row] + first, size, node, roots, scaling, a);
}

template <typename A>
void ForwardNttOf(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  ForwardRows(from, to, rows, 0, table.degree, 1, table.roots, A(table.modulus));
}

template <typename A>
void InverseNttOf(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale, const NttTable& table) {
  const Modulus& q = table.modulus;
  const A a(q);
  const Factor last = MakeFactor(Multiply(scale.value, table.inverse_roots.values[1], q), q.value);
  const Scaling<A> scaling{a.MakeFactors(Set(scale.value), Set(scale.companion)),
                           a.MakeFactors(Set(last.value), Set(last.companion))};
  InverseRows(from, to, rows, 0, table.degree, 1, table.inverse_roots, scaling, a);
}

}  // namespace
}  // namespace fhejax
