// Change of basis in coefficient form, and ModDown in NTT form.

#include "cpu/basis.h"

#include "cpu/handlers.h"

namespace fhejax {
namespace {

void ConvertBasis(ffi::ThreadPool& pool, const handlers::ConvertBasis& in) {
  PrepareResult(in.out);
  const int64_t n = in.values, terms = in.sources;
  const BasisTable& table = BasisTableFor({in.source.begin(), in.source.end()}, {in.target.begin(), in.target.end()});
  const Scratch y(in.batch * terms * n);
  ParallelFor(pool, in.batch * terms, [&](int64_t row) {
    const int64_t limb = row % terms;
    ActiveKernels().multiply_factor(in.x.data + row * n, table.source[limb].inverse, y.get() + row * n, n,
                                    ModulusFor(in.source[limb]));
  });
  std::vector<Conversion> conversions(in.batch);
  for (int64_t i = 0; i < in.batch; ++i) conversions[i] = {&table, y.get() + i * terms * n};
  ConvertBlocks(pool, n, conversions, 0, in.targets,
                [&](int64_t entry, int64_t limb) { return in.out.data + (entry * in.targets + limb) * n; });
}

// In NTT form.
void ModRaise(ffi::ThreadPool& pool, const handlers::ModRaise& in) {
  PrepareResult(in.out);
  const int64_t n = in.n, terms = in.sources, batch = in.batch;
  const BasisTable& table = BasisTableFor({in.source.begin(), in.source.end()}, {in.more.begin(), in.more.end()});
  const Scratch y(batch * terms * n);
  const auto from = [&](int64_t limb, int64_t entry) { return in.x.data + (entry * terms + limb) * n; };
  const auto row = [&](int64_t entry, int64_t limb) { return in.out.data + (entry * (terms + in.added) + limb) * n; };
  ToCoefficients(
      pool, n, terms, batch, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; }, from,
      [&](int64_t limb, int64_t entry) { return y.get() + (entry * terms + limb) * n; });
  std::vector<Conversion> conversions(batch);
  for (int64_t i = 0; i < batch; ++i) conversions[i] = {&table, y.get() + i * terms * n};
  ParallelFor(pool, batch * terms, [&](int64_t task) {
    std::copy_n(from(task % terms, task / terms), n, row(task / terms, task % terms));
  });
  ConvertBlocks(pool, n, conversions, 0, in.added,
                [&](int64_t entry, int64_t limb) { return row(entry, terms + limb); });
  ParallelFor(pool, in.added, [&](int64_t limb) {
    std::vector<uint64_t*> rows(batch);
    for (int64_t i = 0; i < batch; ++i) rows[i] = row(i, terms + limb);
    ActiveKernels().forward_ntt(rows.data(), rows.data(), batch, NttTableFor(n, in.more[limb]));
  });
}

// In NTT form: the quotient by the product of the dropped moduli, rounded to nearest.
void ModDown(ffi::ThreadPool& pool, const handlers::ModDown& in) {
  PrepareResult(in.out);
  const int64_t n = in.n, kept = in.kept, dropped = in.dropped, limbs = kept + dropped, polys = in.batch;
  const BasisTable& table = BasisTableFor({in.drop.begin(), in.drop.end()}, {in.keep.begin(), in.keep.end()});
  const Scratch y(polys * dropped * n);
  const auto from = [&](int64_t poly, int64_t limb) { return in.x.data + (poly * limbs + limb) * n; };
  const auto row = [&](int64_t poly, int64_t limb) { return in.out.data + (poly * kept + limb) * n; };
  ToCoefficients(
      pool, n, dropped, polys, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; },
      [&](int64_t limb, int64_t poly) { return from(poly, kept + limb); },
      [&](int64_t limb, int64_t poly) { return y.get() + (poly * dropped + limb) * n; });
  std::vector<Conversion> conversions(polys);
  for (int64_t i = 0; i < polys; ++i) conversions[i] = {&table, y.get() + i * dropped * n};
  const int64_t group = GroupSize(pool, kept, polys, n);
  for (int64_t first = 0; first < kept; first += group) {
    const int64_t last = std::min(kept, first + group);
    ConvertBlocks(pool, n, conversions, first, last, row);
    ParallelFor(pool, last - first, [&](int64_t task) {
      const int64_t limb = first + task;
      std::vector<uint64_t*> rows(polys);
      for (int64_t i = 0; i < polys; ++i) rows[i] = row(i, limb);
      ActiveKernels().forward_ntt(rows.data(), rows.data(), polys, NttTableFor(n, in.keep[limb]));
      for (int64_t i = 0; i < polys; ++i)
        ActiveKernels().subtract_multiply(from(i, limb), rows[i], table.inverse_product[limb], rows[i], n,
                                          *table.target[limb]);
    });
  }
}

}  // namespace

FHEJAX_CPU_HANDLER(ConvertBasis, ConvertBasis);
FHEJAX_CPU_HANDLER(ModRaise, ModRaise);
FHEJAX_CPU_HANDLER(ModDown, ModDown);

}  // namespace fhejax
