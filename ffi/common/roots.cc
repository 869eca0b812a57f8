#include "common/roots.h"

#include <algorithm>

namespace fhejax {

using Wide128 = unsigned __int128;

uint64_t MultiplySlow(uint64_t a, uint64_t b, uint64_t q) {
  return static_cast<uint64_t>(static_cast<Wide128>(a) * b % q);
}

uint64_t Power(uint64_t base, uint64_t exponent, uint64_t q) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base = MultiplySlow(base, base, q))
    if (exponent & 1) result = MultiplySlow(result, base, q);
  return result;
}

// Miller and Rabin with the first twelve primes, which is certain below 2^64.
bool IsPrime(uint64_t q) {
  const int twos = __builtin_ctzll(q - 1);
  for (const uint64_t base : {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37}) {
    if (q % base == 0) return q == base;
    uint64_t power = Power(base, (q - 1) >> twos, q);
    bool composite = power != 1 && power != q - 1;
    for (int i = 1; i < twos && composite; ++i) {
      power = MultiplySlow(power, power, q);
      composite = power != q - 1;
    }
    if (composite) return false;
  }
  return true;
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

uint64_t ProductModulo(const std::vector<uint64_t>& primes, size_t first, const Modulus& q) {
  uint64_t product = 1 % q.value;
  for (size_t i = first; i < primes.size(); ++i) product = Multiply(product, primes[i] % q.value, q);
  return product;
}

uint64_t TransformRoot(int64_t degree, uint64_t q) {
  uint64_t base = 2;
  while (Power(base, (q - 1) / 2, q) != q - 1) ++base;
  uint64_t power = Power(base, (q - 1) / (2 * static_cast<uint64_t>(degree)), q), smallest = power;
  const Modulus modulus = MakeModulus(q);
  const uint64_t square = Multiply(power, power, modulus);
  for (int64_t i = 0; i < degree; ++i, power = Multiply(power, square, modulus)) smallest = std::min(smallest, power);
  return smallest;
}

std::vector<uint64_t> MixedRadixFactors(const std::vector<uint64_t>& moduli, size_t i) {
  const uint64_t q = moduli[i];
  std::vector<uint64_t> places(1, 1 % q), factors;  // places: the products of the first j moduli, j = 0..i
  for (size_t j = 0; j < i; ++j) places.push_back(MultiplySlow(places[j], moduli[j] % q, q));
  const uint64_t own = Inverse(places[i], q);
  for (size_t j = 0; j < i; ++j) factors.push_back(MultiplySlow(q - own, places[j], q));
  factors.push_back(own);
  return factors;
}

std::vector<uint64_t> BitReversedPowers(uint64_t root, int64_t degree, const Modulus& q) {
  std::vector<uint64_t> powers(degree);
  uint64_t power = 1;
  for (int64_t i = 0, reversed = 0; i < degree; ++i) {
    powers[reversed] = power;
    power = Multiply(power, root, q);
    for (int64_t bit = degree / 2; bit && ((reversed ^= bit) & bit) == 0; bit /= 2) {
    }  // reversed = brv(i + 1): the carry runs from the top bit down
  }
  return powers;
}

}  // namespace fhejax
