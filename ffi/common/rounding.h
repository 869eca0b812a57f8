// Doubles to exact integers and back, one value at a time: shared by CPU and CUDA kernels. No branch depends on a value.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/modular.h"

namespace fhejax {

FHEJAX_INLINE uint64_t BitsOf(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

FHEJAX_INLINE double DoubleOf(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

// |x| = mantissa 2^exponent. Infinities and NaN are read as if they were numbers.
struct Float {
  uint64_t mantissa;
  int exponent;
  bool negative;
};

FHEJAX_INLINE Float Split(double x) {
  const uint64_t bits = BitsOf(x), field = bits >> 52 & 0x7FF, normal = field != 0;
  return {(bits & ((uint64_t{1} << 52) - 1)) | normal << 52, static_cast<int>(field + 1 - normal) - 1075, bits >> 63 != 0};
}

constexpr uint64_t kSign = uint64_t{1} << 63;

// An integer: its sign in the top bit of `high`, its magnitude, below 2^106, in the other bits and `low`; times
// 2^exponent, if that is positive.
struct Rounded {
  uint64_t low, high;
  int exponent;
};

// a scale, rounded to an integer, ties away from zero.
FHEJAX_INLINE Rounded RoundProduct(double a, const Float& scale) {
  const Float x = Split(a);
  const unsigned __int128 product = static_cast<unsigned __int128>(x.mantissa) * scale.mantissa;  // < 2^106
  const int exponent = x.exponent + scale.exponent, up = exponent < 0 ? -exponent : 0, down = up < 107 ? up : 107;
  const unsigned __int128 magnitude = ((product << 1 >> down) + 1) >> 1;
  return {static_cast<uint64_t>(magnitude), static_cast<uint64_t>(magnitude >> 64) | (BitsOf(a) & kSign), exponent};
}

// Such an integer, without the power of two, modulo q.
FHEJAX_INLINE uint64_t ReduceSigned(uint64_t low, uint64_t high, const Modulus& q) {
  const uint64_t r = ReduceWide({low, high & ~kSign}, q), mask = -(high >> 63);
  return (r & ~mask) | (Reduce(q.value - r, q.value) & mask);
}

// The centred integer with digits v_i in mixed radix q_0, q_1, .. is negative if it exceeds (Q - 1) / 2, whose digits are
// (q_i - 1) / 2. From the lowest digit on: 1 if what has been seen is larger. Digits are below 2^62, so that the top bit
// of a difference tells which is larger.
FHEJAX_INLINE uint64_t ExceedsHalf(uint64_t exceeds_below, uint64_t digit, uint64_t q) {
  const uint64_t half = q / 2, above = (half - digit) >> 63, below = (digit - half) >> 63;
  return above | (exceeds_below & ~below);
}

// What digit i adds to the magnitude: of a negative number that of the complement, Q - x, with digits q_i - 1 - v_i, plus
// 1. A place may be infinite, and nothing of it is nothing.
FHEJAX_INLINE double DigitTerm(uint64_t digit, uint64_t negative, uint64_t q, bool lowest, double place) {
  const uint64_t complement = q - !lowest;
  const uint64_t own = (digit & (negative - 1)) | ((complement - digit) & -negative);
  const double term = static_cast<double>(static_cast<int64_t>(own)) * place;
  return DoubleOf(BitsOf(term) & -((-own) >> 63));
}

}  // namespace fhejax
