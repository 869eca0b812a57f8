#include "cuda/limbs.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "common/roots.h"

namespace fhejax {
namespace {

constexpr int64_t kLeastTable = 8;  // a thread of a transform reads the factors of eight words, also of shorter rows

// Whether doubles serve where they are exact: where a multiprocessor computes 64 of them a clock, half as many as floats
// and from compute capability 9.0 on. With 32 (8.0) a butterfly in integers takes fewer clocks; docs/cuda.md has the
// counts. FHEJAX_CUDA_ARITHMETIC decides otherwise.
bool PrefersDoubles(Call& call) {
  if (const char* const wanted = std::getenv("FHEJAX_CUDA_ARITHMETIC")) {
    if (!std::strcmp(wanted, "double")) return true;
    if (!std::strcmp(wanted, "integer")) return false;
    call.RefuseArguments(std::string("FHEJAX_CUDA_ARITHMETIC is neither integer nor double: ") + wanted);
  }
  int ratio = 0, major = 0;
  return cudaDeviceGetAttribute(&ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio, call.device()) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, call.device()) == cudaSuccess && ratio <= 2 &&
         major >= 9;
}

// The factors as the arithmetic of `kind` stores them: with companions, or centred in doubles.
const void* FactorTable(Call& call, const char* name, uint64_t q, ArithmeticKind kind, uint64_t root, int64_t degree) {
  const auto factors = [&] {
    std::vector<uint64_t> values = BitReversedPowers(root, degree, MakeModulus(q));
    values.resize(std::max(degree, kLeastTable), 0);
    values[0] = Inverse(static_cast<uint64_t>(degree), q);
    return values;
  };
  const std::vector<uint64_t> key = {q, static_cast<uint64_t>(kind), static_cast<uint64_t>(degree)};
  if (kind == ArithmeticKind::kInteger)
    return call.Table<Factor>(name, key, [&] {
      std::vector<Factor> table;
      for (const uint64_t value : factors()) table.push_back(MakeFactor(value, q));
      return table;
    });
  return call.Table<double>(name, key, [&] {
    std::vector<double> table;
    for (const uint64_t value : factors())
      table.push_back(value > q / 2 ? -static_cast<double>(q - value) : static_cast<double>(value));
    return table;
  });
}

Limb MakeLimb(Call& call, uint64_t q, ArithmeticKind kind, int64_t degree) {
  Limb limb{MakeModulus(q), 1 / static_cast<double>(q), kind, nullptr, nullptr};
  if (degree == 0) return limb;
  const uint64_t psi = TransformRoot(degree, q);
  limb.roots = FactorTable(call, "roots", q, kind, psi, degree);
  limb.inverse_roots = FactorTable(call, "inverse roots", q, kind, Inverse(psi, q), degree);
  return limb;
}

}  // namespace

const Limb* LimbsOf(Call& call, Moduli moduli) { return TransformLimbsOf(call, moduli, 0); }

const Limb* TransformLimbsOf(Call& call, Moduli moduli, int64_t degree) {
  const bool doubles = PrefersDoubles(call);
  std::vector<uint64_t> key(moduli.begin(), moduli.end());
  key.push_back(static_cast<uint64_t>(degree));
  key.push_back(doubles);
  return call.Table<Limb>("limbs", std::move(key), [&] {
    std::vector<Limb> limbs;
    for (const uint64_t q : moduli) {
      const bool narrow = doubles && q < uint64_t{1} << kDoubleBits;
      limbs.push_back(MakeLimb(call, q, narrow ? ArithmeticKind::kDouble : ArithmeticKind::kInteger, degree));
    }
    return limbs;
  });
}

}  // namespace fhejax
