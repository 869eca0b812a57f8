#include "cuda/basis_tables.h"

#include <algorithm>

#include "common/roots.h"

namespace fhejax {
namespace {

// The product of all primes but the one at `skip`, mod q.
uint64_t ProductExcept(const Primes& primes, size_t skip, uint64_t q) {
  uint64_t product = 1 % q;
  for (size_t i = 0; i < primes.size(); ++i)
    if (i != skip) product = MultiplySlow(product, primes[i] % q, q);
  return product;
}
uint64_t ProductOf(const Primes& primes, uint64_t q) { return ProductExcept(primes, primes.size(), q); }

uint64_t CofactorInverse(const Primes& source, size_t i) {
  return Inverse(ProductExcept(source, i, source[i]), source[i]);
}

ConversionSource SourceOf(const Primes& source, size_t i) {
  const uint64_t c = source[i];
  const int length = 64 - __builtin_clzll(c);
  const auto ratio = static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (length + 51)) / c);
  return {c, ratio << 12, std::max(52 - length, 0), std::max(length - 52, 0), MakeFactor(CofactorInverse(source, i), c)};
}

// What identifies a table made of two lists of primes.
Primes KeyOf(const Primes& a, const Primes& b) {
  Primes key = Joined(a, b);
  key.push_back(a.size());
  return key;
}

Conversion MakeConversion(Call& call, const Primes& source, const Primes& target) {
  const auto* const sources = call.Table<ConversionSource>("conversion sources", source, [&] {
    std::vector<ConversionSource> table;
    for (size_t i = 0; i < source.size(); ++i) table.push_back(SourceOf(source, i));
    return table;
  });
  const auto* const factors = call.Table<LimbFactor>("conversion factors", KeyOf(source, target), [&] {
    std::vector<LimbFactor> table;
    for (const uint64_t d : target) {
      for (size_t i = 0; i < source.size(); ++i)
        table.push_back(MakeLimbFactor(MakeFactor(ProductExcept(source, i, d), d), d));
      const uint64_t product = ProductOf(source, d);
      table.push_back(MakeLimbFactor(MakeFactor(product ? d - product : 0, d), d));
    }
    return table;
  });
  const bool narrow =
      std::all_of(source.begin(), source.end(), [](uint64_t c) { return c < uint64_t{1} << kDoubleBits; });
  return {sources, factors, 0, static_cast<uint32_t>(source.size()), 0, 0, narrow};
}

}  // namespace

const Conversion* ConversionOf(Call& call, const Primes& source, const Primes& target) {
  return call.Table<Conversion>("conversion", KeyOf(source, target),
                                [&] { return std::vector<Conversion>{MakeConversion(call, source, target)}; });
}

const Conversion* DigitConversions(Call& call, const Primes& moduli, const Primes& special, uint32_t digit_size) {
  Primes key = KeyOf(moduli, special);
  key.push_back(digit_size);
  return call.Table<Conversion>("digit conversions", key, [&] {
    std::vector<Conversion> table;
    const auto limbs = static_cast<uint32_t>(moduli.size());
    for (uint32_t first = 0; first < limbs; first += digit_size) {
      const uint32_t last = std::min(limbs, first + digit_size);
      table.push_back(MakeConversion(call, {moduli.begin() + first, moduli.begin() + last}, Joined(moduli, special)));
      table.back().first = table.back().own_begin = first;
      table.back().own_end = last;
    }
    return table;
  });
}

const LimbFactor* ConversionScales(Call& call, const Primes& source, uint32_t digit_size, int64_t degree) {
  Primes key = source;
  key.push_back(digit_size);
  key.push_back(static_cast<uint64_t>(degree));
  return call.Table<LimbFactor>("conversion scales", key, [&] {
    std::vector<LimbFactor> table;
    for (size_t i = 0; i < source.size(); ++i) {
      const size_t first = i / digit_size * digit_size, last = std::min<size_t>(source.size(), first + digit_size);
      const Primes digit(source.begin() + first, source.begin() + last);
      const uint64_t c = source[i], inverse_degree = Inverse(static_cast<uint64_t>(degree), c);
      const uint64_t scale = MultiplySlow(CofactorInverse(digit, i - first), inverse_degree, c);
      table.push_back(MakeLimbFactor(MakeFactor(scale, c), c));
    }
    return table;
  });
}

const LimbFactor* InverseProducts(Call& call, const Primes& moduli, const Primes& factors) {
  return call.Table<LimbFactor>("inverse products", KeyOf(moduli, factors), [&] {
    std::vector<LimbFactor> table;
    for (const uint64_t q : moduli) table.push_back(MakeLimbFactor(MakeFactor(Inverse(ProductOf(factors, q), q), q), q));
    return table;
  });
}

const LimbFactor* Products(Call& call, const Primes& moduli, const Primes& factors) {
  return call.Table<LimbFactor>("products", KeyOf(moduli, factors), [&] {
    std::vector<LimbFactor> table;
    for (const uint64_t q : moduli) table.push_back(MakeLimbFactor(MakeFactor(ProductOf(factors, q), q), q));
    return table;
  });
}

}  // namespace fhejax
