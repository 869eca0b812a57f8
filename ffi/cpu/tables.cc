#include "cpu/tables.h"

#include <tuple>

#include "cpu/kernels.h"

namespace fhejax {
namespace {

// root^brv(i) for i < degree.
Roots RootPowers(uint64_t root, int64_t degree, const Modulus& q, bool narrow) {
  const std::vector<uint64_t> values = BitReversedPowers(root, degree, q);
  Roots powers{AlignedWords(values.begin(), values.end()), AlignedWords(degree)};
  for (int64_t i = 0; i < degree; ++i) {
    const uint64_t companion = MakeFactor(values[i], q.value).companion;
    powers.companions[i] = narrow ? companion >> 12 : companion;  // floor(floor(w 2^64 / q) / 2^12)
  }
  return powers;
}

constexpr int64_t kLeastNarrowDegree = 256;  // the shortest row that the transforms of 52-bit products take

NttTable MakeNttTable(int64_t degree, uint64_t q, bool narrow) {
  const Modulus modulus = MakeModulus(q);
  const uint64_t psi = TransformRoot(degree, q);
  return {degree,
          modulus,
          MakeFactor(Inverse(static_cast<uint64_t>(degree), q), q),
          narrow,
          RootPowers(psi, degree, modulus, narrow),
          RootPowers(Inverse(psi, q), degree, modulus, narrow)};
}

}  // namespace

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
