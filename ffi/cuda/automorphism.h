#pragma once

#include "cuda/call.h"

namespace fhejax {

inline int LogOf(int64_t power_of_two) { return __builtin_ctzll(static_cast<uint64_t>(power_of_two)); }

__device__ __forceinline__ uint32_t ReverseBits(uint32_t i, int bits) { return bits ? __brev(i) >> (32 - bits) : 0; }

// The element of the inverse automorphism.
inline uint32_t InverseElement(uint32_t element, int log_degree) {
  uint32_t inverse = element;  // right modulo 8, and in twice as many bits after each step
  for (int step = 0; step < 4; ++step) inverse *= 2 - element * inverse;
  return inverse & ((2u << log_degree) - 1);
}

// out[i] = in[AutomorphismSource(i)] carries the values of m(X) to those of m(X^element), both in bit-reversed order.
// The element is odd and below 2N.
__device__ __forceinline__ uint32_t AutomorphismSource(uint32_t i, int log_degree, uint32_t element) {
  const uint64_t exponent = uint64_t{element} * (2 * ReverseBits(i, log_degree) + 1);
  const auto root = static_cast<uint32_t>(exponent) & ((2u << log_degree) - 1);  // modulo 2N
  return ReverseBits((root - 1) / 2, log_degree);
}

}  // namespace fhejax
