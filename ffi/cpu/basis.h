// ModDown, used by handlers that end with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/batch.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {

constexpr int64_t kBlock = 2048;  // coefficients that one piece of coefficient-wise work takes

inline std::vector<const uint64_t*> RowsAt(const uint64_t* first, int64_t rows, int64_t stride, int64_t offset) {
  std::vector<const uint64_t*> pointers(rows);
  for (int64_t i = 0; i < rows; ++i) pointers[i] = first + i * stride + offset;
  return pointers;
}

// What a conversion starts from: y[poly][limb] = the coefficients of row(poly, limb), in NTT form, times (C/c)^-1 mod c,
// and v[poly] = round(sum y / c).
template <typename Row>
void PrepareConversion(ffi::ThreadPool& pool, int64_t n, int64_t polys, const BasisTable& table, const Row& row,
                       uint64_t* y, uint64_t* v) {
  const Kernels& kernels = ActiveKernels();
  const auto limbs = static_cast<int64_t>(table.source.size());
  ParallelFor(pool, polys * limbs, [&](int64_t task) {
    const int64_t poly = task % polys, limb = task / polys;
    const SourceLimb& source = table.source[limb];
    uint64_t* const to = y + (poly * limbs + limb) * n;
    std::copy_n(row(poly, limb), n, to);
    kernels.inverse_ntt(to, NttTableFor(n, source.modulus));
    kernels.multiply_factor(to, source.inverse, to, n, ModulusFor(source.modulus));
  });
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  ParallelFor(pool, polys * blocks, [&](int64_t task) {
    const int64_t poly = task / blocks, first = task % blocks * kBlock;
    const auto rows = RowsAt(y + poly * limbs * n, limbs, n, first);
    kernels.overflow(rows.data(), table.source.data(), limbs, v + poly * n + first, std::min(kBlock, n - first));
  });
}

// Divides by the product of the dropped moduli and rounds to nearest, in NTT form.
//
// x(poly) points at rows of `keep` then `drop` limbs. For each poly and kept limb, destination(poly, limb, scratch)
// says where the row goes (scratch is a row of the task's own), and finish(poly, limb, row) is called on it.
template <typename Source, typename Destination, typename Finish>
void ModDownRows(ffi::ThreadPool& pool, int64_t n, int64_t polys, const std::vector<uint64_t>& keep,
                 const std::vector<uint64_t>& drop, const Source& x, const Destination& destination,
                 const Finish& finish) {
  const Kernels& kernels = ActiveKernels();
  const BasisTable& table = BasisTableFor(drop, keep);
  const auto kept = static_cast<int64_t>(keep.size()), dropped = static_cast<int64_t>(drop.size());
  const Scratch y = MakeScratch(polys * dropped * n), v = MakeScratch(polys * n);
  const auto dropped_row = [&](int64_t poly, int64_t d) { return x(poly) + (kept + d) * n; };
  PrepareConversion(pool, n, polys, table, dropped_row, y.get(), v.get());
  ParallelFor(pool, polys * kept, [&](int64_t task) {
    const int64_t poly = task % polys, limb = task / polys;
    uint64_t* const lifted = TaskScratch(2 * n);
    const auto rows = RowsAt(y.get() + poly * dropped * n, dropped, n, 0);
    const Modulus& q = ModulusFor(keep[limb]);
    kernels.combine(rows.data(), table.factors[limb].data(), dropped, v.get() + poly * n, table.last[limb], lifted, n,
                    q, table.narrow);
    kernels.forward_ntt(lifted, NttTableFor(n, keep[limb]));
    uint64_t* const row = destination(poly, limb, lifted + n);
    kernels.subtract_multiply(x(poly) + limb * n, lifted, table.inverse_product[limb], row, n, q);
    finish(poly, limb, row);
  });
}

}  // namespace fhejax
