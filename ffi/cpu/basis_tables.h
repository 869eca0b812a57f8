// Constants of a change of basis, made once and kept for the life of the process.
#pragma once

#include <cstdint>
#include <vector>

#include "common/modular.h"

namespace fhejax {

// One prime c of a source basis with product C. With t its bit length, y / c is approximated by
// floor(top * ratio / 2^52) / 2^51, where top is y brought to 52 bits: y << left >> right.
struct SourceLimb {
  uint64_t modulus;
  Factor inverse;  // (C/c)^-1 mod c
  uint64_t ratio;  // floor(2^(t + 51) / c) < 2^52
  int left, right;
};

// x = sum y_i (C/c_i) - v C with y_i = x_i (C/c_i)^-1 mod c_i: the centred representative.
struct BasisTable {
  bool narrow;  // every source prime is below 2^50
  std::vector<SourceLimb> source;
  std::vector<const Modulus*> target;
  std::vector<std::vector<uint64_t>> factors;  // [target][source]: C/c_i mod d
  std::vector<uint64_t> last;                  // [target]: -C mod d
  std::vector<Factor> inverse_product;         // [target]: C^-1 mod d, or 0 where d divides C
};

const BasisTable& BasisTableFor(const std::vector<uint64_t>& source, const std::vector<uint64_t>& target);

}  // namespace fhejax
