// Two arithmetics modulo a prime, with one interface. A kernel is a template over them, and each block takes that of its
// limb (WithArithmetic); in memory both have the same bits, reduced uint64.
//
//   Word      a residue in registers, in a lazy range      Load, Store   from memory and, reduced, to it
//   Modulus   constants in registers                       ModulusOf     from a limb
//   Factor    a constant factor in registers               FactorAt      from a table of Stored
#pragma once

#include "cuda/limbs.h"

namespace fhejax {

// Products by Shoup and Barrett. Words in [0, 4q), q < 2^61 (Harvey 2014).
struct Integer {
  using Word = uint64_t;
  using Modulus = fhejax::Modulus;
  using Factor = fhejax::Factor;
  using Stored = fhejax::Factor;

  FHEJAX_DEVICE Modulus ModulusOf(const Limb& limb) { return limb.modulus; }
  FHEJAX_DEVICE Factor FactorAt(const void* table, uint32_t index, const Modulus&) {
    return static_cast<const Stored*>(table)[index];
  }

  FHEJAX_DEVICE Word Load(uint64_t x) { return x; }
  FHEJAX_DEVICE uint64_t Store(Word x, const Modulus& q) { return Reduce(Reduce(x, 2 * q.value), q.value); }

  // a, b < q: reduced.
  FHEJAX_DEVICE Word Multiply(Word a, Word b, const Modulus& q) { return fhejax::Multiply(a, b, q); }
  // Any x: in [0, 2q).
  FHEJAX_DEVICE Word Multiply(Word x, Factor w, const Modulus& q) { return MultiplyLazy(x, w, q.value); }
  FHEJAX_DEVICE Word Add(Word a, Word b) { return a + b; }
  // a < q, b in [0, 4q): a factor for the product with a constant, in [0, 5q).
  FHEJAX_DEVICE Word Subtract(Word a, Word b, const Modulus& q) { return a - b + 4 * q.value; }

  // (u, v) -> (u + w v, u - w v), [0, 4q) -> [0, 4q).
  FHEJAX_DEVICE void Forward(Word& u, Word& v, Factor w, const Modulus& q) {
    const Word s = Reduce(u, 2 * q.value), t = Multiply(v, w, q);
    u = s + t;
    v = s - t + 2 * q.value;
  }
  // (u, v) -> (u + v, w (u - v)), [0, 2q) -> [0, 2q).
  FHEJAX_DEVICE void Inverse(Word& u, Word& v, Factor w, const Modulus& q) {
    const Word s = u;
    u = Reduce(s + v, 2 * q.value);
    v = Multiply(s - v + 2 * q.value, w, q);
  }
  // Three stages of butterflies stay in range.
  FHEJAX_DEVICE Word Settle(Word x, const Modulus&) { return x; }
};

// Integers in doubles, q < 2^50, every operation exact. A product x w: with h = x w rounded, h + l = x w exactly (l by a
// fused multiply-add); c, near x w / q, is an integer; h - c q is an integer below 2^53 and so comes exactly out of a
// fused multiply-add, and so does its sum with l.
//
//   constant w, |w| <= q/2, |x| <= 4q: w/q is computed as w (1/q), at most 2^-54 + 2^-55 off, so that x w / q, below 2^51,
//     is at most 3/8 off and c at most 7/8: |x w - c q| <= 7q/8
//   variable 0 <= a, b < q: h/q is rounded instead, at most 2^50 (2^-53 + 2^-53) = 1/4 off: |a b - c q| <= 3q/4
//
// Forward butterflies start at |x| <= q/2 and grow by 7q/8 a stage: three stages to 25q/8. Inverse sums double: to 4q.
struct Double {
  using Word = double;
  struct Modulus {
    double value, inverse;
  };
  struct Factor {
    double value, quotient;  // w, w/q
  };
  using Stored = double;

  FHEJAX_DEVICE Modulus ModulusOf(const Limb& limb) { return {static_cast<double>(limb.modulus.value), limb.inverse}; }
  FHEJAX_DEVICE Factor FactorAt(const void* table, uint32_t index, const Modulus& q) {
    const double w = static_cast<const Stored*>(table)[index];
    return {w, __dmul_rn(w, q.inverse)};
  }

  // x < 2^52: with the exponent of 2^52 its bits are 2^52 + x, faster than a conversion.
  FHEJAX_DEVICE Word Load(uint64_t x) {
    return __dsub_rn(__longlong_as_double(static_cast<long long>(x | 0x4330000000000000u)), 0x1p52);
  }
  // |x| < 2^52: reduced.
  FHEJAX_DEVICE uint64_t Store(Word x, const Modulus& q) {
    const double r = Settle(x, q), positive = r < 0 ? __dadd_rn(r, q.value) : r;
    return static_cast<uint64_t>(__double_as_longlong(__dadd_rn(positive, 0x1p52))) & 0xfffffffffffffu;
  }

  FHEJAX_DEVICE Word Multiply(Word a, Word b, const Modulus& q) {
    const double h = __dmul_rn(a, b), l = __fma_rn(a, b, -h);
    return __dadd_rn(__fma_rn(-RoundProduct(h, q.inverse), q.value, h), l);
  }
  FHEJAX_DEVICE Word Multiply(Word x, Factor w, const Modulus& q) {
    const double h = __dmul_rn(x, w.value), l = __fma_rn(x, w.value, -h);
    return __dadd_rn(__fma_rn(-RoundProduct(x, w.quotient), q.value, h), l);
  }
  FHEJAX_DEVICE Word Add(Word a, Word b) { return __dadd_rn(a, b); }
  // |a| <= q, |b| < 2^52: |a - b| <= 3q/2, modulo q.
  FHEJAX_DEVICE Word Subtract(Word a, Word b, const Modulus& q) { return __dsub_rn(a, Settle(b, q)); }

  FHEJAX_DEVICE void Forward(Word& u, Word& v, Factor w, const Modulus& q) {
    const Word s = u, t = Multiply(v, w, q);
    u = __dadd_rn(s, t);
    v = __dsub_rn(s, t);
  }
  FHEJAX_DEVICE void Inverse(Word& u, Word& v, Factor w, const Modulus& q) {
    const Word s = u;
    u = __dadd_rn(s, v);
    v = Multiply(__dsub_rn(s, v), w, q);
  }
  // |x| < 2^52 -> |x| <= q/2, as is needed before each three stages of butterflies.
  FHEJAX_DEVICE Word Settle(Word x, const Modulus& q) { return __fma_rn(-RoundProduct(x, q.inverse), q.value, x); }

 private:
  // The integer next to a b, |a b| < 2^51.
  FHEJAX_DEVICE double RoundProduct(double a, double b) { return __dsub_rn(__fma_rn(a, b, 0x1.8p52), 0x1.8p52); }
};

// Calls body with the limb's arithmetic. A block has one limb, so its threads go one way.
template <typename Body>
__device__ __forceinline__ void WithArithmetic(const Limb& limb, const Body& body) {
  if (limb.kind == ArithmeticKind::kDouble)
    body(Double{});
  else
    body(Integer{});
}

}  // namespace fhejax
