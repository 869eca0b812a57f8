#include "cpu/coding_tables.h"

#include "cpu/tables.h"

namespace fhejax {
namespace {

// Newton's iteration: q is its own inverse modulo 8, and each step doubles the number of right bits.
uint64_t InverseModulo52Bits(uint64_t q) {
  uint64_t inverse = q;
  for (int bits = 3; bits < 52; bits *= 2) inverse *= 2 - q * inverse;
  return inverse & ((uint64_t{1} << 52) - 1);
}

CodingModulus MakeCodingModulus(uint64_t q) {
  CodingModulus modulus{MakeModulus(q), InverseModulo52Bits(q), 0, {}};
  modulus.mu = static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (52 + modulus.wide.shift)) / q);
  for (uint64_t k = 0; k < 3; ++k) modulus.powers[k] = Power(2 % q, 52 * (k + 1), q);
  return modulus;
}

DigitRow MakeDigitRow(const std::vector<uint64_t>& moduli, size_t i) {
  const uint64_t q = moduli[i];
  DigitRow row{MakeCodingModulus(q), MixedRadixFactors(moduli, i), {}};
  for (const uint64_t factor : row.factors)
    for (int k = 0; k < 2; ++k) row.narrow_factors.push_back(MultiplySlow(factor, row.modulus.powers[k], q));
  return row;
}

}  // namespace

const CodingModulus& CodingModulusFor(uint64_t q) {
  static auto& moduli = *new Cache<uint64_t, CodingModulus>;
  return moduli.Get(q, [=] { return MakeCodingModulus(q); });
}

const MixedRadixTable& MixedRadixTableFor(const std::vector<uint64_t>& moduli) {
  static auto& tables = *new Cache<std::vector<uint64_t>, MixedRadixTable>;
  return tables.Get(moduli, [&] {
    MixedRadixTable table;
    for (size_t i = 0; i < moduli.size(); ++i) table.push_back(MakeDigitRow(moduli, i));
    return table;
  });
}

}  // namespace fhejax
