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

// x: u64[*batch, limbs, N].
ffi::Error AutomorphismHandler(ffi::ThreadPool pool, Input x, Output out, int64_t element) {
  const Dimensions shape = ShapeOf(x);
  const int64_t n = shape.back(), rows = Product(shape, 0, shape.size() - 1);
  if (element <= 0 || element % 2 == 0) return ffi::Error::InvalidArgument("fhejax_automorphism: the element is even");
  PrepareResult(out);
  const auto& source = AutomorphismSource(n, element);
  ParallelFor(pool, rows, [&](int64_t row) {
    ActiveKernels().permute(x.typed_data() + row * n, source.data(), out->typed_data() + row * n, n);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxAutomorphism, AutomorphismHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<int64_t>("element"));

}  // namespace fhejax
