// The automorphism X -> X^g on values in bit-reversed NTT order: a permutation, the same for every limb.

#include <vector>

#include "cpu/automorphism.h"
#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/tables.h"

namespace fhejax {

const std::vector<uint32_t>& AutomorphismSource(int64_t degree, int64_t element) {
  static auto& tables = *new Cache<std::pair<int64_t, int64_t>, std::vector<uint32_t>>;
  return tables.Get({degree, element}, [=] {
    int bits = 0;
    while ((int64_t{1} << bits) < degree) ++bits;
    const auto reverse = [bits](uint32_t i) {
      uint32_t r = 0;
      for (int b = 0; b < bits; ++b) r |= (i >> b & 1) << (bits - 1 - b);
      return r;
    };
    std::vector<uint32_t> source(degree);
    for (int64_t i = 0; i < degree; ++i) {
      const auto exponent = static_cast<uint64_t>(element) * (2 * reverse(static_cast<uint32_t>(i)) + uint64_t{1});
      source[i] = reverse(static_cast<uint32_t>((exponent % (2 * static_cast<uint64_t>(degree)) - 1) / 2));
    }
    return source;
  });
}

namespace {

void Automorphism(ffi::ThreadPool& pool, const handlers::Automorphism& in) {
  PrepareResult(in.out);
  const auto& source = AutomorphismSource(in.n, in.element);
  ParallelFor(pool, in.batch * in.limbs, [&](int64_t row) {
    ActiveKernels().permute(in.x.data + row * in.n, source.data(), in.out.data + row * in.n, in.n);
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(Automorphism, Automorphism);

}  // namespace fhejax
