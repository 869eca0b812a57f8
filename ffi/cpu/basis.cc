// Change of basis in coefficient form, and ModDown in NTT form.

#include "cpu/basis.h"

#include "cpu/handlers.h"

namespace fhejax {
namespace {

// x: u64[*batch, source limbs, N] -> u64[*batch, target limbs, N].
ffi::Error ConvertBasisHandler(ffi::ThreadPool pool, Input x, Output out, Moduli source, Moduli target) {
  const Dimensions shape = ShapeOf(x);
  const auto terms = static_cast<int64_t>(source.size()), targets = static_cast<int64_t>(target.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != terms)
    return ffi::Error::InvalidArgument("fhejax_convert_basis: the limb axis does not match the source moduli");
  PrepareResult(out);
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  const std::vector<uint64_t> moduli(target.begin(), target.end());
  const BasisTable& table = BasisTableFor({source.begin(), source.end()}, moduli);
  const Scratch y(batch * terms * n);
  ParallelFor(pool, batch * terms, [&](int64_t row) {
    const int64_t limb = row % terms;
    ActiveKernels().multiply_factor(x.typed_data() + row * n, table.source[limb].inverse, y.get() + row * n, n,
                                    ModulusFor(source.begin()[limb]));
  });
  std::vector<Conversion> conversions(batch);
  for (int64_t i = 0; i < batch; ++i) conversions[i] = {&table, y.get() + i * terms * n};
  ConvertBlocks(pool, n, conversions, 0, targets,
                [&](int64_t entry, int64_t limb) { return out->typed_data() + (entry * targets + limb) * n; });
  return ffi::Error::Success();
}

// x: u64[*batch, source limbs, N] -> u64[*batch, source + more limbs, N], both in NTT form.
ffi::Error ModRaiseHandler(ffi::ThreadPool pool, Input x, Output out, Moduli source, Moduli more) {
  const Dimensions shape = ShapeOf(x);
  const auto terms = static_cast<int64_t>(source.size()), added = static_cast<int64_t>(more.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != terms)
    return ffi::Error::InvalidArgument("fhejax_mod_raise: the limb axis does not match the source moduli");
  PrepareResult(out);
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  const std::vector<uint64_t> moduli(more.begin(), more.end());
  const BasisTable& table = BasisTableFor({source.begin(), source.end()}, moduli);
  const Scratch y(batch * terms * n);
  const auto in = [&](int64_t limb, int64_t entry) { return x.typed_data() + (entry * terms + limb) * n; };
  const auto row = [&](int64_t entry, int64_t limb) {
    return out->typed_data() + (entry * (terms + added) + limb) * n;
  };
  ToCoefficients(
      pool, n, terms, batch, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; }, in,
      [&](int64_t limb, int64_t entry) { return y.get() + (entry * terms + limb) * n; });
  std::vector<Conversion> conversions(batch);
  for (int64_t i = 0; i < batch; ++i) conversions[i] = {&table, y.get() + i * terms * n};
  ParallelFor(pool, batch * terms, [&](int64_t task) {
    std::copy_n(in(task % terms, task / terms), n, row(task / terms, task % terms));
  });
  ConvertBlocks(pool, n, conversions, 0, added,
                [&](int64_t entry, int64_t limb) { return row(entry, terms + limb); });
  ParallelFor(pool, added, [&](int64_t limb) {
    std::vector<uint64_t*> rows(batch);
    for (int64_t i = 0; i < batch; ++i) rows[i] = row(i, terms + limb);
    ActiveKernels().forward_ntt(rows.data(), rows.data(), batch, NttTableFor(n, moduli[limb]));
  });
  return ffi::Error::Success();
}

// x: u64[*batch, kept + dropped limbs, N] -> u64[*batch, kept limbs, N], both in NTT form: the quotient by the product
// of the dropped moduli, rounded to nearest.
ffi::Error ModDownHandler(ffi::ThreadPool pool, Input x, Output out, Moduli keep, Moduli drop) {
  const Dimensions shape = ShapeOf(x);
  const auto kept = static_cast<int64_t>(keep.size()), dropped = static_cast<int64_t>(drop.size());
  const int64_t limbs = kept + dropped;
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_mod_down: the limb axis does not match the moduli");
  PrepareResult(out);
  const int64_t n = shape.back(), polys = Product(shape, 0, shape.size() - 2);
  const BasisTable& table = BasisTableFor({drop.begin(), drop.end()}, {keep.begin(), keep.end()});
  const Scratch y(polys * dropped * n);
  const auto in = [&](int64_t poly, int64_t limb) { return x.typed_data() + (poly * limbs + limb) * n; };
  const auto row = [&](int64_t poly, int64_t limb) { return out->typed_data() + (poly * kept + limb) * n; };
  ToCoefficients(
      pool, n, dropped, polys, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; },
      [&](int64_t limb, int64_t poly) { return in(poly, kept + limb); },
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
      ActiveKernels().forward_ntt(rows.data(), rows.data(), polys, NttTableFor(n, keep.begin()[limb]));
      for (int64_t i = 0; i < polys; ++i)
        ActiveKernels().subtract_multiply(in(i, limb), rows[i], table.inverse_product[limb], rows[i], n,
                                          *table.target[limb]);
    });
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxConvertBasis, ConvertBasisHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("source")
                                  .Attr<Moduli>("target"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxModRaise, ModRaiseHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("source")
                                  .Attr<Moduli>("more"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxModDown, ModDownHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("keep")
                                  .Attr<Moduli>("drop"));

}  // namespace fhejax
