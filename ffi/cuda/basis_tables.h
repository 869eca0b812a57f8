// Constants of a change of basis on the device.
#pragma once

#include <vector>

#include "cuda/sums.h"

namespace fhejax {

// One prime c of a source basis with product C. With t its bit length, y / c is approximated by
// floor(top * ratio / 2^64) / 2^51, where top is y brought to 52 bits: y << left >> right.
struct ConversionSource {
  uint64_t modulus;
  uint64_t ratio;  // floor(2^(t + 51) / c) 2^12
  int left, right;
  Factor inverse;  // (C/c)^-1 mod c
};

// From some source limbs to every target: x = sum y_i (C/c_i) - v C with y_i = x_i (C/c_i)^-1 mod c_i.
struct Conversion {
  const ConversionSource* sources;
  const LimbFactor* factors;  // [target][terms + 1]: C/c_i modulo the target, and -C behind them
  uint32_t first, terms;      // its source limbs among those of the operand
  uint32_t own_begin, own_end;  // targets that are not made
  uint32_t narrow;              // every source prime is below 2^50
};

using Primes = std::vector<uint64_t>;

// One conversion of all source limbs.
const Conversion* ConversionOf(Call& call, const Primes& source, const Primes& target);

// A conversion a digit of digit_size limbs, to `moduli` (but the digit's own) and `special`.
const Conversion* DigitConversions(Call& call, const Primes& moduli, const Primes& special, uint32_t digit_size);

// What the inverse transform of a source limb ends with: (C/c)^-1 / N, for each digit of so many limbs.
const LimbFactor* ConversionScales(Call& call, const Primes& source, uint32_t digit_size, int64_t degree);

// (product of `factors`)^-1, or the product itself, modulo each of `moduli`; no factor is among these.
const LimbFactor* InverseProducts(Call& call, const Primes& moduli, const Primes& factors);
const LimbFactor* Products(Call& call, const Primes& moduli, const Primes& factors);

inline Primes Joined(const Primes& a, const Primes& b) {
  Primes both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}
inline Primes PrimesOf(Moduli moduli) { return {moduli.begin(), moduli.end()}; }

}  // namespace fhejax
