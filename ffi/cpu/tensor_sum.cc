// A sum of products of ciphertexts, with three components: each operand is read once.

#include <algorithm>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {
namespace {

constexpr int64_t kLine = 8;         // words
constexpr int64_t kWords = 1 << 15;  // of a block of all operands: a quarter of a common second-level cache
constexpr int64_t kLeast = 64;       // values of a row at a time, also for very many operands

struct Operand {
  const uint64_t* data;
  std::vector<int64_t> entry;  // for each entry of the batch
};

// Operands: as many x as y, u64[*batch, 2, limbs, N] -> u64[*batch, 3, limbs, N].
ffi::Error TensorSumHandler(ffi::ThreadPool pool, ffi::RemainingArgs operands, Output out, Moduli moduli) {
  const Dimensions result = ShapeOf(*out);
  const auto limbs = static_cast<int64_t>(moduli.size()), terms = static_cast<int64_t>(operands.size() / 2);
  if (operands.size() != 2 * static_cast<size_t>(terms) || terms == 0 || result.size() < 3)
    return ffi::Error::InvalidArgument("fhejax_tensor_sum: needs as many x as y");
  const Batch batch = BatchOf(result, 3);
  const int64_t n = result.back();
  std::vector<Operand> all;
  for (size_t i = 0; i < operands.size(); ++i) {
    auto buffer = operands.get<Input>(i);
    if (buffer.has_error()) return buffer.error();
    const Dimensions shape = ShapeOf(*buffer);
    if (shape.size() != result.size() || shape.back() != n || shape[shape.size() - 2] != limbs ||
        shape[shape.size() - 3] != 2)
      return ffi::Error::InvalidArgument("fhejax_tensor_sum: operand shapes do not fit");
    all.push_back({buffer->typed_data(), batch.Entries(shape, 3)});
    if (batch.count() && all.back().entry.empty())
      return ffi::Error::InvalidArgument("fhejax_tensor_sum: batch axes do not broadcast");
  }
  PrepareResult(out);
  int64_t block = kLeast;
  while (8 * block * terms <= kWords) block *= 2;
  block = std::min(block, n);
  const int64_t blocks = (n + block - 1) / block;
  ParallelFor(pool, batch.count() * limbs * blocks, [&](int64_t task) {
    const int64_t entry = task / (limbs * blocks), limb = task / blocks % limbs, offset = task % blocks * block;
    const int64_t count = std::min(block, n - offset);
    // Rows lie a power of two apart, and would all fall into the same few lines of the cache.
    const int64_t pitch = block + kLine;
    uint64_t* next = TaskScratch(4 * terms * pitch);
    std::vector<const uint64_t*> rows[2][2];  // of x and y, by component
    for (int64_t i = 0; i < 2 * terms; ++i)
      for (int64_t half = 0; half < 2; ++half, next += pitch) {
        std::copy_n(all[i].data + ((2 * all[i].entry[entry] + half) * limbs + limb) * n + offset, count, next);
        rows[i / terms][half].push_back(next);
      }
    const auto& [x, y] = rows;
    const Modulus& q = ModulusFor(moduli.begin()[limb]);
    const auto sum = [&](const auto& a, const auto& b, int64_t component) {
      ActiveKernels().inner_product(a.data(), b.data(), static_cast<int64_t>(a.size()),
                                    out->typed_data() + ((3 * entry + component) * limbs + limb) * n + offset, count,
                                    q);
    };
    const auto both = [](std::vector<const uint64_t*> a, const std::vector<const uint64_t*>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    sum(x[0], y[0], 0);
    sum(both(x[0], x[1]), both(y[1], y[0]), 1);
    sum(x[1], y[1], 2);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxTensorSum, TensorSumHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli"));

}  // namespace fhejax
