// AVX2 and fused multiply-add: primes below 2^50 in floating point, larger ones in integers. Rows that are no whole
// number of vectors take the plain loops.

#include "cpu/kernels_generic.h"
#include "cpu/narrow_avx2.h"
#include "cpu/wide_avx2.h"

namespace fhejax {
namespace {

inline bool Whole(int64_t n) { return n % kLanes == 0; }
inline bool IsNarrow(const Modulus& q) { return q.value < kNarrow; }

void ForwardNtt4(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  const auto transform = table.degree < kLeastRow    ? ForwardNtt
                         : IsNarrow(table.modulus) ? ForwardNttOf<NarrowArithmetic>
                                                   : ForwardNttOf<WideArithmetic>;
  transform(from, to, rows, table);
}

void ForwardHead4(uint64_t* const* rows, int64_t count, const NttTable& table) {
  ForwardNtt4(rows, rows, count, table);
}

void InverseNtt4(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale, const NttTable& table) {
  const auto transform = table.degree < kLeastRow    ? InverseNtt
                         : IsNarrow(table.modulus) ? InverseNttOf<NarrowArithmetic>
                                                   : InverseNttOf<WideArithmetic>;
  transform(from, to, rows, scale, table);
}

void AddRow4(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  (Whole(n) ? AddWide : AddRow)(a, b, out, n, q);
}

void SubtractRow4(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  (Whole(n) ? SubtractWide : SubtractRow)(a, b, out, n, q);
}

void MultiplyRow4(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  (!Whole(n) ? MultiplyRow : IsNarrow(q) ? MultiplyNarrow : MultiplyWide)(a, b, out, n, q);
}

void MultiplyAddRow4(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                     const Modulus& q) {
  (!Whole(n) ? MultiplyAddRow : IsNarrow(q) ? MultiplyAddNarrow : MultiplyAddWide)(a, b, c, out, n, q);
}

void MultiplyFactorRow4(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  (!Whole(n) ? MultiplyFactorRow : IsNarrow(q) ? MultiplyFactorNarrow : MultiplyFactorWide)(a, w, out, n, q);
}

void SubtractMultiplyRow4(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  (!Whole(n) ? SubtractMultiplyRow : IsNarrow(q) ? SubtractMultiplyNarrow : SubtractMultiplyWide)(a, b, w, out, n, q);
}

// An automorphism maps aligned blocks of any power of two to such blocks, so also blocks of 4.
struct Permuted {
  int64_t block;
  Vector words;  // the indices of the 32-bit words

  FHEJAX_FORCE_INLINE explicit Permuted(const uint32_t* source) : block(*source & ~uint32_t{kLanes - 1}) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    const Vector twice = _mm256_slli_epi64(_mm256_cvtepu32_epi64(four), 1);  // vpermd looks at three bits
    words = Add(Add(twice, _mm256_slli_epi64(twice, 32)), Set(uint64_t{1} << 32));
  }
  FHEJAX_FORCE_INLINE Vector operator()(Vector x) const { return _mm256_permutevar8x32_epi32(x, words); }
};

void PermuteRow4(const uint64_t* x, const uint32_t* source, uint64_t* out, int64_t n) {
  if (!Whole(n)) return PermuteRow(x, source, out, n);
  for (int64_t i = 0; i < n; i += kLanes) {
    const Permuted permuted(source + i);
    Store(out + i, permuted(Load(x + permuted.block)));
  }
}

// `reduced` gives four reduced values of (a - b) w + c from an index on.
template <typename Reduced>
FHEJAX_FORCE_INLINE void PermuteOf(const Reduced& reduced, const uint32_t* source, uint64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Permuted permuted(source + i);
    Store(out + i, permuted(reduced(permuted.block)));
  }
}

void SubtractMultiplyPermuteRow4(const uint64_t* a, const uint64_t* b, Factor w, const uint64_t* c,
                                 const uint32_t* source, uint64_t* out, int64_t n, const Modulus& q) {
  if (!Whole(n)) return SubtractMultiplyPermuteRow(a, b, w, c, source, out, n, q);
  if (IsNarrow(q)) {
    const DifferenceTimesNarrow product{a, b, SetDouble(w.value), NarrowConstants(q)};
    const auto reduced = [&](int64_t i) __attribute__((always_inline)) {
      return product.c.Canonical(c ? _mm256_add_pd(product(i), LoadDouble(c + i)) : product(i));
    };
    return PermuteOf(reduced, source, out, n);
  }
  const DifferenceTimesWide product{a, b, WideFactors(w), WideConstants(q)};
  const auto reduced = [&](int64_t i) __attribute__((always_inline)) {
    return product.c.ReduceFrom8(c ? Add(product(i), Load(c + i)) : product(i));
  };
  PermuteOf(reduced, source, out, n);
}

void InnerProductRow4(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                      const Modulus& q) {
  (!Whole(n) ? InnerProductRow : IsNarrow(q) ? InnerProductNarrow : InnerProductWide)(a, b, terms, out, n, q);
}

void Combine4(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
              int64_t count, int64_t n, bool narrow) {
  if (!Whole(n)) return Combine(y, v, terms, targets, count, n, narrow);
  for (const ConversionTarget* target = targets; target < targets + count; ++target) {
    if (narrow && IsNarrow(*target->q)) {
      CombineNarrow(y, v, terms, *target, n);
    } else {
      CombineWide(y, v, terms, *target, n, narrow);
    }
  }
}

void OverflowRow4(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  (terms == 1 || !Whole(n) ? OverflowRow : OverflowWide)(y, limbs, terms, v, n);
}

}  // namespace

extern const Kernels kAvx2 = {
    "avx2",
    0,
    ForwardNtt4,
    ForwardHead4,
    ForwardTail,
    InverseNtt4,
    AddRow4,
    SubtractRow4,
    MultiplyRow4,
    MultiplyRow4,
    MultiplyAddRow4,
    MultiplyFactorRow4,
    SubtractMultiplyRow4,
    SubtractMultiplyPermuteRow4,
    PermuteRow4,
    InnerProductRow4,
    Combine4,
    OverflowRow4,
    ChaCha20Blocks,
};

}  // namespace fhejax
