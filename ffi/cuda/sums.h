// Sums of products, reduced as seldom as each arithmetic can afford; and constant factors that serve both arithmetics.
#pragma once

#include "cuda/arithmetic.h"

namespace fhejax {

// A constant w < q as either arithmetic takes it.
struct LimbFactor {
  Factor integer;
  Double::Factor real;  // centred
};

inline LimbFactor MakeLimbFactor(Factor w, uint64_t q) {
  const double centred = w.value > q / 2 ? -static_cast<double>(q - w.value) : static_cast<double>(w.value);
  return {w, {centred, centred * (1 / static_cast<double>(q))}};
}

template <typename A>
struct SumOf;

template <>
struct SumOf<Integer> {
  using Sum = Wide;
  static constexpr int kProducts = 60;  // of numbers below 2^61, to a settled sum

  FHEJAX_DEVICE Factor FactorOf(const LimbFactor& w) { return w.integer; }

  // x in [0, 4q).
  FHEJAX_DEVICE Sum From(uint64_t x) { return {x, 0}; }
  // a, b < 2^61.
  FHEJAX_DEVICE void Add(Sum& sum, uint64_t a, uint64_t b, const Modulus&) { Accumulate(sum, a, b); }
  FHEJAX_DEVICE void Add(Sum& sum, uint64_t a, const LimbFactor& w, const Modulus&) {
    Accumulate(sum, a, w.integer.value);
  }
  FHEJAX_DEVICE void Settle(Sum& sum, const Modulus& q) { sum = {ReduceWide(sum, q), 0}; }
  FHEJAX_DEVICE uint64_t Reduced(const Sum& sum, const Modulus& q) { return ReduceWide(sum, q); }
};

// A sum of |x| <= q and three products, each at most 7q/8, stays below 2^52.
template <>
struct SumOf<Double> {
  using Sum = double;
  static constexpr int kProducts = 3;

  FHEJAX_DEVICE Double::Factor FactorOf(const LimbFactor& w) { return w.real; }

  // |x| <= q.
  FHEJAX_DEVICE Sum From(double x) { return x; }
  // |a|, |b| <= q.
  FHEJAX_DEVICE void Add(Sum& sum, double a, double b, const Double::Modulus& q) {
    sum = __dadd_rn(sum, Double::Multiply(a, b, q));
  }
  // |a| < 2^50.
  FHEJAX_DEVICE void Add(Sum& sum, double a, const LimbFactor& w, const Double::Modulus& q) {
    sum = __dadd_rn(sum, Double::Multiply(a, w.real, q));
  }
  FHEJAX_DEVICE void Settle(Sum& sum, const Double::Modulus& q) { sum = Double::Settle(sum, q); }
  FHEJAX_DEVICE uint64_t Reduced(Sum sum, const Double::Modulus& q) { return Double::Store(sum, q); }
};

}  // namespace fhejax
