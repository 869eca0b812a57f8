// What random words of a stream become (fhejax/primitives/sampling.py), and what small integers become modulo a prime, one
// value at a time: shared by CPU and CUDA kernels. No branch depends on a random number or on what is made of it.
#pragma once

#include <cstdint>

#include "common/modular.h"

namespace fhejax {

enum Tag : uint32_t { kUniform = 2, kTernary = 3, kGaussian = 4, kSparse = 5 };

FHEJAX_INLINE uint64_t Number(const uint32_t* words) { return words[0] | uint64_t{words[1]} << 32; }

// A 128-bit number, of four words.
FHEJAX_INLINE Wide WideNumber(const uint32_t* words) { return {Number(words), Number(words + 2)}; }

// floor(3 r / 2^64) - 1 of a 64-bit number, of two words. By halves: what the lower carries into the upper is below 3.
FHEJAX_INLINE int16_t TernaryOf(const uint32_t* words) {
  const uint64_t carry = (3 * uint64_t{words[0]}) >> 32;
  return static_cast<int16_t>(static_cast<int64_t>((3 * uint64_t{words[1]} + carry) >> 32) - 1);
}

// 1 if x < y, else 0, for numbers up to 2^127: the top bit of the difference.
FHEJAX_INLINE uint64_t IsBelow(Wide x, Wide y) { return (x.high - y.high - (x.low < y.low)) >> 63; }

// A number without its top bit, which is the sign of something.
FHEJAX_INLINE Wide WithoutSign(Wide x) { return {x.low, x.high & ~(uint64_t{1} << 63)}; }
FHEJAX_INLINE int64_t WithSignOf(int64_t magnitude, Wide x) {
  const int64_t sign = static_cast<int64_t>(x.high) >> 63;
  return (magnitude ^ sign) - sign;
}

// |x| < q modulo q.
FHEJAX_INLINE uint64_t ResidueOfSmall(int64_t x, uint64_t q) {
  return static_cast<uint64_t>(x + (static_cast<int64_t>(q) & x >> 63));
}

// x factor modulo q, for x in {-1, 0, 1}.
FHEJAX_INLINE uint64_t ScaleTernary(int64_t x, uint64_t factor, uint64_t q) {
  return (factor & static_cast<uint64_t>(-x >> 63)) | (Reduce(q - factor, q) & static_cast<uint64_t>(x >> 63));
}

// e - [x + e] for a residue x modulo p and |e| < p, [.] the centred residue modulo p.
FHEJAX_INLINE int64_t CentredError(uint64_t x, int64_t e, uint64_t p) {
  const auto q = static_cast<int64_t>(p), half = q / 2;
  int64_t total = static_cast<int64_t>(x) + e;  // in (-p, 2p)
  total -= q & (half - total) >> 63;
  total -= q & (half - total) >> 63;
  total += q & (total + half) >> 63;
  return e - total;
}

// d factor modulo q, |d| < 2^62.
FHEJAX_INLINE uint64_t ScaleSigned(int64_t d, Factor factor, uint64_t q) {
  const int64_t sign = d >> 63;
  const uint64_t r = Reduce(MultiplyLazy(static_cast<uint64_t>((d ^ sign) - sign), factor, q), q);
  return (r & static_cast<uint64_t>(~sign)) | (Reduce(q - r, q) & static_cast<uint64_t>(sign));
}

}  // namespace fhejax
