// Forward and inverse NTT of every row.

#include <algorithm>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

// x: u64[*batch, limbs, N]; one modulus a limb.
ffi::Error Transform(ffi::ThreadPool& pool, Input x, Output out, Moduli moduli,
                     void (*transform)(uint64_t*, const NttTable&)) {
  const Dimensions shape = ShapeOf(x);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_ntt: the limb axis does not match the moduli");
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  // Limb by limb, all batch entries together: one limb's twiddles stay in the cache.
  ParallelFor(pool, batch * limbs, [&](int64_t task) {
    const int64_t limb = task / batch, row = task % batch * limbs + limb;
    uint64_t* const destination = out->typed_data() + row * n;
    std::copy_n(x.typed_data() + row * n, n, destination);
    transform(destination, NttTableFor(n, moduli.begin()[limb]));
  });
  return ffi::Error::Success();
}

ffi::Error NttHandler(ffi::ThreadPool pool, Input x, Output out, Moduli moduli) {
  return Transform(pool, x, out, moduli, ActiveKernels().forward_ntt);
}

ffi::Error InverseNttHandler(ffi::ThreadPool pool, Input x, Output out, Moduli moduli) {
  return Transform(pool, x, out, moduli, ActiveKernels().inverse_ntt);
}

#define FHEJAX_UNARY \
  ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxNtt, NttHandler, FHEJAX_UNARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxInverseNtt, InverseNttHandler, FHEJAX_UNARY);

}  // namespace fhejax
