// Forward and inverse NTT of every row.

#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

// Calls transform(from, to, rows, table) on the rows of each limb.
template <typename Stated, typename RowsTransform>
void Transform(ffi::ThreadPool& pool, const Stated& in, const RowsTransform& transform) {
  PrepareResult(in.out);
  // A limb's rows together, so that its twiddles are read once for all, unless that leaves threads without work.
  const int64_t together = in.limbs >= 2 * pool.num_threads() ? in.batch : 1, parts = together ? in.batch / together : 0;
  ParallelFor(pool, in.limbs * parts, [&](int64_t task) {
    const int64_t limb = task / parts, first = task % parts * together;
    std::vector<const uint64_t*> from(together);
    std::vector<uint64_t*> to(together);
    for (int64_t i = 0; i < together; ++i) {
      const int64_t row = (first + i) * in.limbs + limb;
      from[i] = in.x.data + row * in.n;
      to[i] = in.out.data + row * in.n;
    }
    transform(from.data(), to.data(), together, NttTableFor(in.n, in.moduli[limb]));
  });
}

void Forward(ffi::ThreadPool& pool, const handlers::Ntt& in) { Transform(pool, in, ActiveKernels().forward_ntt); }

void Inverse(ffi::ThreadPool& pool, const handlers::InverseNtt& in) {
  Transform(pool, in, [](const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
    ActiveKernels().inverse_ntt(from, to, rows, table.inverse_degree, table);
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(Ntt, Forward);
FHEJAX_CPU_HANDLER(InverseNtt, Inverse);

}  // namespace fhejax
