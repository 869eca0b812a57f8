#include "cpu/tables.h"

#include <algorithm>
#include <tuple>

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
Roots BitReversedPowers(uint64_t root, int64_t degree, const Modulus& q, bool narrow) {
  Roots powers{AlignedWords(degree), AlignedWords(degree)};
  uint64_t power = 1;
  for (int64_t i = 0, reversed = 0; i < degree; ++i) {
    const Factor w = MakeFactor(power, q.value);
    powers.values[reversed] = w.value;
    powers.companions[reversed] = narrow ? w.companion >> 12 : w.companion;  // floor(floor(w 2^64 / q) / 2^12)
    power = Multiply(power, root, q);
    for (int64_t bit = degree / 2; bit && ((reversed ^= bit) & bit) == 0; bit /= 2) {
    }  // reversed = brv(i + 1): the carry runs from the top bit down
  }
  return powers;
}

constexpr int64_t kLeastNarrowDegree = 256;  // the shortest row that the transforms of 52-bit products take

NttTable MakeNttTable(int64_t degree, uint64_t q, bool narrow) {
  const Modulus modulus = MakeModulus(q);
  const uint64_t psi = SmallestPrimitiveRoot(2 * static_cast<uint64_t>(degree), q);
  return {degree,
          modulus,
          MakeFactor(Inverse(static_cast<uint64_t>(degree), q), q),
          narrow,
          BitReversedPowers(psi, degree, modulus, narrow),
          BitReversedPowers(Inverse(psi, q), degree, modulus, narrow)};
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
  return {q, mu, length - 2, MakeFactor(1, q), MakeFactor(word, q), MakeFactor((uint64_t{1} << 52) % q, q)};
}

const NttTable& NttTableFor(int64_t degree, uint64_t q) {
  static auto& tables = *new Cache<std::tuple<int64_t, uint64_t, bool>, NttTable>;
  const bool narrow = q < uint64_t{1} << ActiveKernels().narrow_bits && degree >= kLeastNarrowDegree;
  return tables.Get({degree, q, narrow}, [=] { return MakeNttTable(degree, q, narrow); });
}

const Modulus& ModulusFor(uint64_t q) {
  static auto& moduli = *new Cache<uint64_t, Modulus>;
  return moduli.Get(q, [=] { return MakeModulus(q); });
}

}  // namespace fhejax
