// Modular arithmetic value by value: one row (batch entry and limb) is one piece of work.

#include <array>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

// Calls row(operand rows, out row, n, modulus) for each row of operands u64[*batch, limbs, N].
template <size_t kOperands, typename Row>
ffi::Error Rows(ffi::ThreadPool& pool, const std::array<Input, kOperands>& operands, Output& out, Moduli moduli,
                const Row& row) {
  const Dimensions shape = ShapeOf(*out);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax: the limb axis does not match the moduli");
  PrepareResult(out);
  const int64_t n = shape.back();
  const Batch batch = BatchOf(shape, 2);
  std::array<std::vector<int64_t>, kOperands> entries;
  for (size_t k = 0; k < kOperands; ++k) {
    entries[k] = batch.Entries(ShapeOf(operands[k]), 2);
    if (entries[k].empty() && batch.count()) return ffi::Error::InvalidArgument("fhejax: batch axes do not broadcast");
  }
  ParallelFor(pool, batch.count() * limbs, [&](int64_t task) {
    const int64_t limb = task / batch.count(), entry = task % batch.count();  // what broadcasts stays in the cache
    std::array<const uint64_t*, kOperands> rows;
    for (size_t k = 0; k < kOperands; ++k)
      rows[k] = operands[k].typed_data() + (entries[k][entry] * limbs + limb) * n;
    row(rows, out->typed_data() + (entry * limbs + limb) * n, n, ModulusFor(moduli.begin()[limb]));
  });
  return ffi::Error::Success();
}

ffi::Error AddHandler(ffi::ThreadPool pool, Input a, Input b, Output out, Moduli moduli) {
  return Rows<2>(pool, {a, b}, out, moduli, [](const auto& in, uint64_t* row, int64_t n, const Modulus& q) {
    ActiveKernels().add(in[0], in[1], row, n, q);
  });
}

ffi::Error SubtractHandler(ffi::ThreadPool pool, Input a, Input b, Output out, Moduli moduli) {
  return Rows<2>(pool, {a, b}, out, moduli, [](const auto& in, uint64_t* row, int64_t n, const Modulus& q) {
    ActiveKernels().subtract(in[0], in[1], row, n, q);
  });
}

constexpr size_t kCache = size_t{1} << 24;  // bytes of a result that a cache may still hold when it is read

ffi::Error MultiplyHandler(ffi::ThreadPool pool, Input a, Input b, Output out, Moduli moduli) {
  const auto multiply = out->size_bytes() <= kCache ? ActiveKernels().multiply : ActiveKernels().multiply_past_caches;
  return Rows<2>(pool, {a, b}, out, moduli, [multiply](const auto& in, uint64_t* row, int64_t n, const Modulus& q) {
    multiply(in[0], in[1], row, n, q);
  });
}

ffi::Error MultiplyAddHandler(ffi::ThreadPool pool, Input a, Input b, Input c, Output out, Moduli moduli) {
  return Rows<3>(pool, {a, b, c}, out, moduli, [](const auto& in, uint64_t* row, int64_t n, const Modulus& q) {
    ActiveKernels().multiply_add(in[0], in[1], in[2], row, n, q);
  });
}

// a: u64[*batch, limbs, N]; scalar: u64[*batch, limbs], reduced.
ffi::Error MultiplyScalarHandler(ffi::ThreadPool pool, Input a, Input scalar, Output out, Moduli moduli) {
  const Dimensions shape = ShapeOf(*out);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_multiply_scalar: the limb axis does not match the moduli");
  PrepareResult(out);
  const int64_t n = shape.back();
  const Batch batch = BatchOf(shape, 2);
  const auto a_entries = batch.Entries(ShapeOf(a), 2), scalar_entries = batch.Entries(ShapeOf(scalar), 1);
  if (batch.count() && (a_entries.empty() || scalar_entries.empty()))
    return ffi::Error::InvalidArgument("fhejax_multiply_scalar: batch axes do not broadcast");
  ParallelFor(pool, batch.count() * limbs, [&](int64_t task) {
    const int64_t entry = task / limbs, limb = task % limbs;
    const Modulus& q = ModulusFor(moduli.begin()[limb]);
    const Factor w = MakeFactor(scalar.typed_data()[scalar_entries[entry] * limbs + limb], q.value);
    ActiveKernels().multiply_factor(a.typed_data() + (a_entries[entry] * limbs + limb) * n, w,
                                    out->typed_data() + task * n, n, q);
  });
  return ffi::Error::Success();
}

#define FHEJAX_BINARY \
  ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Input>().Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxAdd, AddHandler, FHEJAX_BINARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSubtract, SubtractHandler, FHEJAX_BINARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxMultiply, MultiplyHandler, FHEJAX_BINARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxMultiplyScalar, MultiplyScalarHandler, FHEJAX_BINARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxMultiplyAdd, MultiplyAddHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli"));

}  // namespace fhejax
