// What the two halves of a linear transform by double hoisting share: sums of plaintexts times rotations of ciphertexts
// (hoisted_sums.cc), modulo QP and times P; and a rotation of such a sum, added to another one (add_rotation.cc).
//
// An automorphism carries aligned blocks of values to such blocks, of any size that is a power of two: in bit-reversed
// order the upper bits of a position are the lower ones of an exponent, and only these decide the lower ones of g times
// it. So a block of a result is made from the digits on, with every rotation that it needs, while it is in the cache.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "cpu/automorphism.h"
#include "cpu/key_switch.h"

namespace fhejax {

constexpr int64_t kWide = 2 * kBlock;  // values that are made at a time

// A key switch without its division, and the automorphism that follows it.
struct Switch {
  Key key;
  int64_t block;
  std::vector<uint32_t> inner;   // where each value of a block stands in the block that it comes from
  std::vector<uint32_t> origin;  // which block that is

  Switch(Key key, int64_t n, int64_t element) : key(std::move(key)), block(std::min(n, kWide)), inner(n) {
    const auto& source = AutomorphismSource(n, element);
    for (int64_t i = 0; i < n; ++i) inner[i] = source[i] & (block - 1);
    for (int64_t i = 0; i < n; i += block) origin.push_back(source[i] / block);
  }
};

// The digits of a polynomial modulo all extended limbs, in NTT form; from(limb) is its row. A digit's own limbs are not
// made.
template <typename From>
void RaiseAll(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, const From& from) {
  const int64_t extended = plan.extended_limbs();
  Decompose(pool, plan, digits, [&](int64_t limb, int64_t) { return from(limb); });
  Raise(pool, plan, digits, 0, extended);
  ParallelFor(pool, extended, [&](int64_t limb) {
    const auto rows = RaisedRows(plan, digits, limb);
    if (!rows.empty())
      ActiveKernels().forward_ntt(rows.data(), rows.data(), static_cast<int64_t>(rows.size()),
                                  NttTableFor(plan.n, plan.extended[limb]));
  });
}

inline int64_t DigitWords(const Plan& plan) {
  return plan.limbs * plan.n + Digits::RaisedWords(plan, 1, plan.extended_limbs());
}

inline Digits DigitsAt(const Plan& plan, uint64_t* memory) {
  return {1, plan.extended_limbs(), memory, memory + plan.limbs * plan.n};
}

// The automorphism of (sum over digits of digit * key, plus factor * c0 in the first half), for a block of one limb of
// the result: out[half]. `own` and `c0` are rows, null for 0.
inline void RotateBlock(const Plan& plan, const Switch& rotation, const Digits& digits, KeyBlocks& key, int64_t limb, int64_t number,
                        const uint64_t* own, const uint64_t* c0, uint64_t factor, uint64_t* const* out) {
  const int64_t block = rotation.block, offset = rotation.origin[number] * block;
  uint64_t* const memory = TaskScratch<3>(3 * block);
  uint64_t* const u[] = {memory, memory + block};
  uint64_t* const factors = memory + 2 * block;
  if (c0) std::fill_n(factors, block, factor);
  MultiplyBlock(
      plan, digits, {0, limb, offset, block, nullptr}, key,
      [&](const Block& at) { return own + at.offset; },
      [&](const Block& at, Terms& terms) {
        if (c0) terms.Add(0, c0 + at.offset, factors);
      },
      u);
  for (int64_t half = 0; half < 2; ++half)
    ActiveKernels().permute(u[half], rotation.inner.data() + number * block, out[half], block);
}

// Asks for the first values of a key's rows, which no stream of the processor follows yet.
inline void FetchAhead(const Switch& rotation, const KeyBlocks& key, int64_t limb, int64_t number) {
  constexpr int64_t kLine = 8, kWords = 1024;
  for (const uint64_t* const row : key.Stored(limb, rotation.origin[number] * rotation.block))
    for (int64_t i = 0; i < std::min(rotation.block, kWords); i += kLine) __builtin_prefetch(row + i);
}

}  // namespace fhejax
