// Hybrid key switching in launches, for the handlers that contain one:
//
//   Raise     inverse transform of the polynomial, each limb times (Q_i/q)^-1; conversion of every digit to the other
//             primes; their transforms. A digit's own rows are those of the polynomial.
//   Multiply  the masks of a seeded key, if it is one; the sum over digits, for both halves and every limb.
//   Divide    as in basis.h, of both halves.
#pragma once

#include <algorithm>

#include "cuda/basis.h"
#include "cuda/inner_product.h"

namespace fhejax {

// What a key switch of a polynomial with moduli q_0..q_l needs to know.
struct SwitchPlan {
  Primes moduli, special;
  uint32_t digit_size = 0, digits = 0;
  int log_degree = 0;
  const Limb* limbs = nullptr;  // of q_0..q_l and the special primes behind them

  uint32_t own_limbs() const { return static_cast<uint32_t>(moduli.size()); }
  uint32_t all_limbs() const { return static_cast<uint32_t>(moduli.size() + special.size()); }
  uint64_t n() const { return uint64_t{1} << log_degree; }
  uint64_t own_words() const { return own_limbs() * n(); }
  uint64_t all_words() const { return all_limbs() * n(); }
};

template <typename Stated>
SwitchPlan SwitchPlanOf(Call& call, const Stated& in) {
  SwitchPlan plan{PrimesOf(in.moduli), PrimesOf(in.special), static_cast<uint32_t>(std::min(in.digit_size, in.limbs)),
                  static_cast<uint32_t>(in.digits), LogOf(in.n)};
  const Primes all = Joined(plan.moduli, plan.special);
  plan.limbs = TransformLimbsOf(call, {all.data(), all.size()}, in.n);
  return plan;
}

// The batch of a key switch with operands in the order of kSwitchOperands.
inline SwitchBatch SwitchBatchOf(Call& call, Shape batch, Shape digits, const KeyArgument& key, Shape other) {
  const Shape residues = key.residues.batch();
  return BatchOf<kSwitchOperands>(call, batch, {digits, residues, key.seeded() ? key.seeds.batch() : residues, other});
}

// What a key switch works in.
struct SwitchMemory {
  uint64_t* coefficients;       // [polynomials, own limbs, N]
  uint64_t* raised;             // [polynomials, digits, all limbs, N]
  uint64_t* masks;              // [seeds, digits, all limbs, N]
  uint64_t* product = nullptr;  // [pairs, 2, all limbs, N]
  uint64_t* lifts = nullptr;    // [pairs, 2, kept limbs, N]
};

template <typename Stated>
SwitchMemory SwitchMemoryOf(const Stated& in) {
  const auto& work = in.workspace;
  return {work.coefficients, work.raised, work.masks, work.product, work.lifts};
}

// The raised digits as rows; a digit's own ones are skipped.
struct RaisedRows : WriteRows {
  uint32_t digits, digit_size, moduli;

  __device__ __forceinline__ bool Skips(const Tile& tile) const {
    return tile.limb < moduli && tile.limb / digit_size == tile.entry % digits;
  }
};

// The latter two steps of Raise.
void LaunchRaiseCoefficients(Call& call, const SwitchPlan& plan, const SwitchMemory& memory, uint32_t polynomials);

// `from` reads rows [polynomials, own limbs, N] in NTT form.
template <typename From>
void LaunchRaise(Call& call, const SwitchPlan& plan, const SwitchMemory& memory, uint32_t polynomials, const From& from) {
  const auto n = static_cast<int64_t>(plan.n());
  const WriteRows coefficients{memory.coefficients, plan.own_words(), plan.log_degree};
  LaunchInverse(call, {polynomials, plan.own_limbs(), plan.log_degree, plan.limbs, NttShapeOf(plan.log_degree)}, from,
                coefficients, ScaledRows{coefficients, ConversionScales(call, plan.moduli, plan.digit_size, n)});
  LaunchRaiseCoefficients(call, plan, memory, polynomials);
}

// Draws the masks where there are none.
KeyRows LaunchKeyRows(Call& call, const SwitchPlan& plan, const KeyArgument& key, uint64_t* masks);

template <typename Own, typename Out>
void LaunchMultiply(Call& call, const SwitchPlan& plan, const SwitchMemory& memory, const SwitchBatch& batch,
                    const KeyArgument& key, const Own& own, const Out& out) {
  const DigitRows digits{memory.raised,    plan.digits,      plan.digit_size,
                         plan.own_limbs(), plan.all_limbs(), static_cast<uint32_t>(plan.n())};
  LaunchMultiplyByKey(call, batch, digits, LaunchKeyRows(call, plan, key, memory.masks), own, out, plan.limbs);
}

inline PairRows ProductRows(const SwitchPlan& plan, const SwitchMemory& memory) {
  return {memory.product, plan.all_limbs(), static_cast<uint32_t>(plan.n())};
}

// The division of the product of so many pairs by all but its first `kept` limbs.
Division DivisionOf(const SwitchPlan& plan, const SwitchMemory& memory, uint32_t pairs, uint32_t kept);
Quotient QuotientOf(Call& call, const Division& division, uint64_t* to);

// Pairs u64[entries, 2, limbs, N] rotated, each word written where the automorphism takes it, and added to others. Aligned
// blocks go to such blocks, so the words of a warp stay side by side.
struct RotatedPairs {
  uint64_t* to;
  const uint64_t* total;  // null for none
  uint32_t inverse_element, limbs;
  int log_degree;

  __device__ __forceinline__ auto At(const Tile& tile, uint32_t other, const Limb& limb) const {
    const uint64_t half = uint64_t{limbs} << log_degree, at = uint64_t{tile.limb} << log_degree;
    uint64_t* const row = to + 2 * tile.entry * half + at;
    const uint64_t* const added = total ? total + 2 * other * half + at : nullptr;
    const uint64_t q = limb.modulus.value;
    const int log_n = log_degree;
    const uint32_t inverse = inverse_element;
    return [=](uint32_t k, uint64_t first, uint64_t second) {
      const uint32_t place = AutomorphismSource(k, log_n, inverse);
      row[place] = added ? Reduce(first + added[place], q) : first;
      row[half + place] = added ? Reduce(second + added[half + place], q) : second;
    };
  }
};

// The polynomial itself, and what is added to the product: others times P. Rows [entries, limbs, N], in reduced words;
// null for none.
struct OwnRows {
  const uint64_t *own, *first, *second;
  const LimbFactor* lift;  // P
  uint64_t stride;         // words between entries, the same for all
  uint32_t limbs, n;

  template <typename A>
  __device__ __forceinline__ auto At(const Tile& tile, uint32_t entry, uint32_t, const Limb&,
                                     const typename A::Modulus& q) const {
    const bool there = tile.limb < limbs;
    const uint64_t at = entry * stride + uint64_t{tile.limb} * n;
    const uint64_t *const x = there && own ? own + at : nullptr, *const b = there && first ? first + at : nullptr,
                          *const a = there && second ? second + at : nullptr;
    const typename A::Factor w = there && lift ? SumOf<A>::FactorOf(lift[tile.limb]) : typename A::Factor{0, 0};
    return [x, b, a, w, q](uint32_t k) {
      using Word = typename A::Word;
      return OwnWords<A>{x ? A::Load(x[k]) : Word{0}, b ? A::Multiply(A::Load(b[k]), w, q) : Word{0},
                         a ? A::Multiply(A::Load(a[k]), w, q) : Word{0}};
    };
  }
};

}  // namespace fhejax
