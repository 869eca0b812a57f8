// Change of basis in coefficient form, and divisions that end with one.
#pragma once

#include "cuda/automorphism.h"
#include "cuda/basis_tables.h"
#include "cuda/ntt_kernels.h"

namespace fhejax {

// Rows of source limbs to rows of target limbs, for so many entries and, in each, `count` conversions.
struct ConversionRows {
  const uint64_t* from;  // [entries][source limbs], in coefficient form; entries from_stride words apart
  uint64_t* to;          // [entries][count][targets], to_stride words between conversions
  uint64_t from_stride, to_stride;
  uint32_t entries, count, targets, most_terms;
  uint32_t n;
};

// `from` holds y, times (C/c)^-1 already, or with `scales` x: reduced words. Results are reduced. `limbs`: the targets'.
void LaunchConversion(Call& call, const ConversionRows& rows, const Conversion* conversions, const Limb* limbs,
                      bool scales = false);

// Rows of polynomials u64[polynomials, kept + dropped, N], in NTT form, to be divided by the product of what is dropped.
struct Division {
  const uint64_t* from;
  uint64_t from_stride;
  uint64_t* dropped;  // the coefficients of the dropped rows, perhaps in place
  uint64_t dropped_stride;
  uint64_t* lifts;  // [polynomials, kept, N]: what is subtracted from each kept row
  uint32_t polynomials;
  Primes keep, drop;
  int log_degree;

  Primes all() const { return Joined(keep, drop); }
  uint64_t n() const { return uint64_t{1} << log_degree; }
  uint64_t lift_stride() const { return keep.size() * n(); }
};

// (from - lift) / D, the end of a division: from reduced words of `from` to reduced words [polynomials, kept, N].
struct Quotient {
  const uint64_t* from;
  uint64_t from_stride;
  uint64_t* to;
  const LimbFactor* inverses;
  uint32_t kept;
  int log_degree;

  __device__ __forceinline__ bool Skips(const Tile&) const { return false; }
  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    const uint64_t* const row = from + tile.entry * from_stride + (uint64_t{tile.limb} << log_degree);
    uint64_t* const out = to + ((uint64_t{tile.entry} * kept + tile.limb) << log_degree);
    const typename A::Factor w = SumOf<A>::FactorOf(inverses[tile.limb]);
    return [row, out, w, q](uint32_t k, typename A::Word lift) {
      out[k] = A::Store(A::Multiply(A::Subtract(A::Load(row[k]), lift, q), w, q), q);
    };
  }
};

// The rows that are dropped to coefficients; modulo the kept primes; transformed, and from there to `quotient`.
template <typename To>
void LaunchDivision(Call& call, const Division& division, const To& quotient) {
  const auto kept = static_cast<uint32_t>(division.keep.size()), dropped = static_cast<uint32_t>(division.drop.size());
  const int log_degree = division.log_degree;
  const auto n = static_cast<int64_t>(division.n());
  const Primes all = division.all();
  const Limb* const limbs = TransformLimbsOf(call, {all.data(), all.size()}, n);
  const NttShape shape = NttShapeOf(log_degree);
  const WriteRows coefficients{division.dropped, division.dropped_stride, log_degree};
  LaunchInverse(call, {division.polynomials, dropped, log_degree, limbs + kept, shape},
                ReadRows{division.from + (uint64_t{kept} << log_degree), division.from_stride, log_degree}, coefficients,
                ScaledRows{coefficients, ConversionScales(call, division.drop, dropped, n)});
  LaunchConversion(call,
                   {division.dropped, division.lifts, division.dropped_stride, division.lift_stride(),
                    division.polynomials, 1, kept, dropped, static_cast<uint32_t>(n)},
                   ConversionOf(call, division.drop, division.keep), limbs);
  const WriteRows lifts{division.lifts, division.lift_stride(), log_degree};
  LaunchForward(call, {division.polynomials, kept, log_degree, limbs, shape},
                ReadRows{division.lifts, division.lift_stride(), log_degree}, lifts, quotient);
}

}  // namespace fhejax
