#include "cpu/basis_tables.h"

#include <algorithm>
#include <utility>

#include "cpu/tables.h"

namespace fhejax {
namespace {

// The product of all moduli but the one at `skip`, mod q.
uint64_t ProductExcept(const std::vector<uint64_t>& moduli, size_t skip, uint64_t q) {
  uint64_t product = 1;
  for (size_t i = 0; i < moduli.size(); ++i)
    if (i != skip) product = MultiplySlow(product, moduli[i] % q, q);
  return product;
}

SourceLimb MakeSourceLimb(const std::vector<uint64_t>& source, size_t i) {
  const uint64_t c = source[i];
  const int length = 64 - __builtin_clzll(c);
  const auto ratio = static_cast<uint64_t>((static_cast<unsigned __int128>(1) << (length + 51)) / c);
  const Factor inverse = MakeFactor(Inverse(ProductExcept(source, i, c), c), c);
  return {c, inverse, ratio, length <= 52 ? 52 - length : 0, length <= 52 ? 0 : length - 52};
}

BasisTable MakeBasisTable(const std::vector<uint64_t>& source, const std::vector<uint64_t>& target) {
  BasisTable table;
  table.narrow = std::all_of(source.begin(), source.end(), [](uint64_t c) { return c < uint64_t{1} << 50; });
  for (size_t i = 0; i < source.size(); ++i) table.source.push_back(MakeSourceLimb(source, i));
  for (const uint64_t d : target) {
    std::vector<uint64_t> factors;
    for (size_t i = 0; i < source.size(); ++i) factors.push_back(ProductExcept(source, i, d));
    const uint64_t product = ProductExcept(source, source.size(), d);
    table.target.push_back(&ModulusFor(d));
    table.factors.push_back(std::move(factors));
    table.last.push_back(product ? d - product : 0);
    table.inverse_product.push_back(MakeFactor(product ? Inverse(product, d) : 0, d));
  }
  return table;
}

}  // namespace

const BasisTable& BasisTableFor(const std::vector<uint64_t>& source, const std::vector<uint64_t>& target) {
  static auto& tables = *new Cache<std::pair<std::vector<uint64_t>, std::vector<uint64_t>>, BasisTable>;
  return tables.Get({source, target}, [&] { return MakeBasisTable(source, target); });
}

}  // namespace fhejax
