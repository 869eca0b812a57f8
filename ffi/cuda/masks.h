// The second halves of seeded keys.
#pragma once

#include "cuda/limbs.h"

namespace fhejax {

// u64[seeds, digits, moduli + special, N] from u32[seeds, 8], as key_masks in fhejax/primitives/key_switch.py draws them:
// reduced. `limbs` are q_0..q_l and the special primes behind them.
struct Masks {
  const uint32_t* seeds;
  uint64_t* to;
  uint32_t count, digits, moduli, special;
  uint32_t n;

  uint64_t words() const { return uint64_t{count} * digits * (moduli + special) * n; }
};

void LaunchDrawMasks(Call& call, const Masks& masks, const Limb* limbs);

}  // namespace fhejax
