// Forward and inverse NTT of every row.

#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

// Calls transform(from, to, rows, table) on the rows of each limb of x: u64[*batch, limbs, N], one modulus a limb.
template <typename RowsTransform>
ffi::Error Transform(ffi::ThreadPool& pool, Input x, Output out, Moduli moduli, const RowsTransform& transform) {
  const Dimensions shape = ShapeOf(x);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs)
    return ffi::Error::InvalidArgument("fhejax_ntt: the limb axis does not match the moduli");
  PrepareResult(out);
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2);
  // A limb's rows together, so that its twiddles are read once for all, unless that leaves threads without work.
  const int64_t together = limbs >= 2 * pool.num_threads() ? batch : 1, parts = together ? batch / together : 0;
  ParallelFor(pool, limbs * parts, [&](int64_t task) {
    const int64_t limb = task / parts, first = task % parts * together;
    std::vector<const uint64_t*> from(together);
    std::vector<uint64_t*> to(together);
    for (int64_t i = 0; i < together; ++i) {
      const int64_t row = (first + i) * limbs + limb;
      from[i] = x.typed_data() + row * n;
      to[i] = out->typed_data() + row * n;
    }
    transform(from.data(), to.data(), together, NttTableFor(n, moduli.begin()[limb]));
  });
  return ffi::Error::Success();
}

ffi::Error NttHandler(ffi::ThreadPool pool, Input x, Output out, Moduli moduli) {
  return Transform(pool, x, out, moduli, ActiveKernels().forward_ntt);
}

ffi::Error InverseNttHandler(ffi::ThreadPool pool, Input x, Output out, Moduli moduli) {
  const auto inverse = [](const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
    ActiveKernels().inverse_ntt(from, to, rows, table.inverse_degree, table);
  };
  return Transform(pool, x, out, moduli, inverse);
}

#define FHEJAX_UNARY \
  ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxNtt, NttHandler, FHEJAX_UNARY);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxInverseNtt, InverseNttHandler, FHEJAX_UNARY);

}  // namespace fhejax
