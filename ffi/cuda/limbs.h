// A prime and its constants on the device: what a block reads of the limb that it works on.
#pragma once

#include "cuda/call.h"

namespace fhejax {

// How a limb is computed: see arithmetic.h. Both give the same bits.
enum class ArithmeticKind : uint32_t { kInteger, kDouble };

constexpr int kDoubleBits = 50;  // the arithmetic of doubles is exact for primes below 2^50

struct Limb {
  Modulus modulus;
  double inverse;  // 1 / q
  ArithmeticKind kind;
  // psi^brv(i) and psi^-brv(i), i < max(N, 8), as the limb's arithmetic stores factors; in place of the 1 = psi^0 of the
  // second, which no transform reads, stands 1/N. Null in limbs without transforms.
  const void *roots, *inverse_roots;
};

// The limbs of these moduli on the call's device; null after an error.
const Limb* LimbsOf(Call& call, Moduli moduli);

// The same with what transforms of this degree need; every prime is 1 mod 2N.
const Limb* TransformLimbsOf(Call& call, Moduli moduli, int64_t degree);

}  // namespace fhejax
