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
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  const int64_t block = std::min<int64_t>(n, 512), blocks = n / block;  // y of one block stays in L1 or L2
  const std::vector<uint64_t> moduli(target.begin(), target.end());
  const BasisTable& table = BasisTableFor({source.begin(), source.end()}, moduli);
  const Kernels& kernels = ActiveKernels();
  ParallelFor(pool, batch * blocks, [&](int64_t task) {
    const int64_t entry = task / blocks, first = task % blocks * block;
    uint64_t* const y = TaskScratch((terms + 1) * block);
    uint64_t* const v = y + terms * block;
    for (int64_t i = 0; i < terms; ++i)
      kernels.multiply_factor(x.typed_data() + (entry * terms + i) * n + first, table.source[i].inverse, y + i * block,
                              block, ModulusFor(source.begin()[i]));
    const auto rows = RowsAt(y, terms, block, 0);
    kernels.overflow(rows.data(), table.source.data(), terms, v, block);
    for (int64_t j = 0; j < targets; ++j)
      kernels.combine(rows.data(), table.factors[j].data(), terms, v, table.last[j],
                      out->typed_data() + (entry * targets + j) * n + first, block, ModulusFor(moduli[j]),
                      table.narrow);
  });
  return ffi::Error::Success();
}

// x: u64[*batch, source limbs, N] -> u64[*batch, source + more limbs, N], both in NTT form.
ffi::Error ModRaiseHandler(ffi::ThreadPool pool, Input x, Output out, Moduli source, Moduli more) {
  const Dimensions shape = ShapeOf(x);
  const auto terms = static_cast<int64_t>(source.size()), added = static_cast<int64_t>(more.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != terms)
    return ffi::Error::InvalidArgument("fhejax_mod_raise: the limb axis does not match the source moduli");
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  const std::vector<uint64_t> moduli(more.begin(), more.end());
  const BasisTable& table = BasisTableFor({source.begin(), source.end()}, moduli);
  const Kernels& kernels = ActiveKernels();
  const Scratch y = MakeScratch(batch * terms * n), v = MakeScratch(batch * n);
  const auto row = [&](int64_t entry, int64_t limb) { return x.typed_data() + (entry * terms + limb) * n; };
  PrepareConversion(pool, n, batch, table, row, y.get(), v.get());
  for (int64_t entry = 0; entry < batch; ++entry)
    std::copy_n(row(entry, 0), terms * n, out->typed_data() + entry * (terms + added) * n);
  ParallelFor(pool, batch * added, [&](int64_t task) {
    const int64_t entry = task % batch, limb = task / batch;
    uint64_t* const raised = out->typed_data() + (entry * (terms + added) + terms + limb) * n;
    const auto rows = RowsAt(y.get() + entry * terms * n, terms, n, 0);
    kernels.combine(rows.data(), table.factors[limb].data(), terms, v.get() + entry * n, table.last[limb], raised, n,
                    ModulusFor(moduli[limb]), table.narrow);
    kernels.forward_ntt(raised, NttTableFor(n, moduli[limb]));
  });
  return ffi::Error::Success();
}

// x: u64[*batch, kept + dropped limbs, N] -> u64[*batch, kept limbs, N], both in NTT form.
ffi::Error ModDownHandler(ffi::ThreadPool pool, Input x, Output out, Moduli keep, Moduli drop) {
  const Dimensions shape = ShapeOf(x);
  const auto kept = static_cast<int64_t>(keep.size()), limbs = kept + static_cast<int64_t>(drop.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_mod_down: the limb axis does not match the moduli");
  const int64_t n = shape.back();
  ModDownRows(
      pool, n, Product(shape, 0, shape.size() - 2), {keep.begin(), keep.end()}, {drop.begin(), drop.end()},
      [&](int64_t poly) { return x.typed_data() + poly * limbs * n; },
      [&](int64_t poly, int64_t limb, uint64_t*) { return out->typed_data() + (poly * kept + limb) * n; },
      [](int64_t, int64_t, uint64_t*) {});
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
