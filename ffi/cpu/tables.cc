#include "cpu/tables.h"

#include <algorithm>
#include <utility>

#include "cpu/kernels.h"

namespace fhejax {
namespace {

using Wide128 = unsigned __int128;

uint64_t SmallestPrimitiveRoot(uint64_t order, uint64_t q) {
  uint64_t base = 2;
  while (Power(base, (q - 1) / 2, q) != q - 1) ++base;
  uint64_t power = Power(base, (q - 1) / order, q), smallest = power;
  const Modulus modulus = MakeModulus(q);
  const uint64_t square = Multiply(power, power, modulus);
  for (uint64_t i = 0; i < order / 2; ++i, power = Multiply(power, square, modulus))
    smallest = std::min(smallest, power);
  return smallest;
}

// root^brv(i) for i < degree.
std::vector<Factor> BitReversedPowers(uint64_t root, int64_t degree, const Modulus& q) {
  std::vector<Factor> powers(degree);
  uint64_t power = 1;
  for (int64_t i = 0, reversed = 0; i < degree; ++i) {
    powers[reversed] = MakeFactor(power, q.value);
    power = Multiply(power, root, q);
    for (int64_t bit = degree / 2; bit && ((reversed ^= bit) & bit) == 0; bit /= 2) {
    }  // reversed = brv(i + 1): the carry runs from the top bit down
  }
  return powers;
}

NarrowRoots Narrow(const std::vector<Factor>& roots) {
  NarrowRoots narrow;
  for (const Factor& w : roots) {
    narrow.values.push_back(w.value);
    narrow.companions.push_back(w.companion >> 12);  // floor(floor(w 2^64 / q) / 2^12) = floor(w 2^52 / q)
  }
  return narrow;
}

constexpr int64_t kLeastNarrowDegree = 64;  // what the narrow transforms do in registers at once

NttTable MakeNttTable(int64_t degree, uint64_t q) {
  NttTable table{degree, MakeModulus(q), MakeFactor(Inverse(static_cast<uint64_t>(degree), q), q), {}, {}, {}, {}};
  const uint64_t psi = SmallestPrimitiveRoot(2 * static_cast<uint64_t>(degree), q);
  table.roots = BitReversedPowers(psi, degree, table.modulus);
  table.inverse_roots = BitReversedPowers(Inverse(psi, q), degree, table.modulus);
  if (q < uint64_t{1} << ActiveKernels().narrow_bits && degree >= kLeastNarrowDegree) {
    table.narrow_roots = Narrow(std::exchange(table.roots, {}));
    table.narrow_inverse_roots = Narrow(std::exchange(table.inverse_roots, {}));
  }
  return table;
}

}  // namespace

uint64_t MultiplySlow(uint64_t a, uint64_t b, uint64_t q) {
  return static_cast<uint64_t>(static_cast<Wide128>(a) * b % q);
}

uint64_t Power(uint64_t base, uint64_t exponent, uint64_t q) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base = MultiplySlow(base, base, q))
    if (exponent & 1) result = MultiplySlow(result, base, q);
  return result;
}

uint64_t Inverse(uint64_t a, uint64_t q) { return Power(a % q, q - 2, q); }

Factor MakeFactor(uint64_t value, uint64_t q) {
  return {value, static_cast<uint64_t>((static_cast<Wide128>(value) << 64) / q)};
}

Modulus MakeModulus(uint64_t q) {
  const int length = 64 - __builtin_clzll(q);
  const auto mu = static_cast<uint64_t>((static_cast<Wide128>(1) << (length + 62)) / q);
  const auto word = static_cast<uint64_t>((static_cast<Wide128>(1) << 64) % q);
  return {q, mu, length - 2, MakeFactor(1, q), MakeFactor(word, q)};
}

const NttTable& NttTableFor(int64_t degree, uint64_t q) {
  static auto& tables = *new Cache<std::pair<int64_t, uint64_t>, NttTable>;
  return tables.Get({degree, q}, [=] { return MakeNttTable(degree, q); });
}

const Modulus& ModulusFor(uint64_t q) {
  static auto& moduli = *new Cache<uint64_t, Modulus>;
  return moduli.Get(q, [=] { return MakeModulus(q); });
}

}  // namespace fhejax
