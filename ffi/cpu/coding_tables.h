// Constants of the loops of coding.h, made once and kept for the life of the process.
#pragma once

#include <cstdint>
#include <vector>

#include "common/modular.h"

namespace fhejax {

// A modulus, and for odd q < 2^50 what a reduction by 52-bit products needs: L is its bit length.
struct CodingModulus {
  Modulus wide;
  uint64_t inverse;    // q^-1 mod 2^52
  uint64_t mu;         // floor(2^(50 + L) / q)
  uint64_t powers[3];  // 2^52, 2^104 and 2^156 mod q
};

const CodingModulus& CodingModulusFor(uint64_t q);

// What gives digit i in mixed radix: see MixedRadixFactors.
struct DigitRow {
  CodingModulus modulus;
  std::vector<uint64_t> factors;         // f_0, .., f_i
  std::vector<uint64_t> narrow_factors;  // f_j 2^52 and f_j 2^104 for each, mod q_i
};

using MixedRadixTable = std::vector<DigitRow>;

const MixedRadixTable& MixedRadixTableFor(const std::vector<uint64_t>& moduli);

}  // namespace fhejax
