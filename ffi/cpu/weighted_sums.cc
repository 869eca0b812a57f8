// Sums of ciphertexts times numbers: a block of all terms at a time, which the cache holds while every sum of them is
// made.

#include <algorithm>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {
namespace {

constexpr int64_t kLine = 8;           // words
constexpr int64_t kWords = 1 << 15;    // of a block of all terms: a quarter of a common second-level cache
constexpr int64_t kLeast = 64;         // values of a row at a time, also for very many terms
constexpr uint64_t kNarrow = uint64_t{1} << 50;

// How many values of each row are taken at a time.
int64_t BlockOf(int64_t n, int64_t terms) {
  int64_t block = kLeast;
  while (2 * block * terms <= kWords) block *= 2;
  return std::min(n, block);
}

// x: u64[*batch, terms, components, limbs, N], weights: u64[*batch, sums, limbs, terms] ->
// u64[*batch, sums, components, limbs, N].
ffi::Error WeightedSumsHandler(ffi::ThreadPool pool, Input x, Input weights, Output out, Moduli moduli) {
  const Dimensions shape = ShapeOf(x), numbers = ShapeOf(weights), result = ShapeOf(*out);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 4 || numbers.size() < 3 || result.size() < 4 || shape[shape.size() - 2] != limbs ||
      numbers[numbers.size() - 2] != limbs || numbers.back() != shape[shape.size() - 4])
    return ffi::Error::InvalidArgument("fhejax_weighted_sums: operand shapes do not fit");
  PrepareResult(out);
  const int64_t n = shape.back(), components = shape[shape.size() - 3], terms = numbers.back();
  const int64_t sums = numbers[numbers.size() - 3];
  const Batch batch = BatchOf(result, 4);
  const auto x_entries = batch.Entries(shape, 4), weight_entries = batch.Entries(numbers, 3);
  if (batch.count() && (x_entries.empty() || weight_entries.empty()))
    return ffi::Error::InvalidArgument("fhejax_weighted_sums: batch axes do not broadcast");
  const int64_t block = BlockOf(n, terms), blocks = (n + block - 1) / block, rows = components * limbs;
  ParallelFor(pool, batch.count() * rows * blocks, [&](int64_t task) {
    const int64_t entry = task / (rows * blocks), row = task / blocks % rows, offset = task % blocks * block;
    const int64_t count = std::min(block, n - offset);
    const Modulus& q = ModulusFor(moduli.begin()[row % limbs]);
    // Rows of a ciphertext lie a power of two apart, and would all fall into the same few lines of the cache; a line
    // between the copies spreads them.
    const int64_t pitch = block + kLine;
    uint64_t* const memory = TaskScratch(terms * pitch + block);
    uint64_t* const zeros = memory + terms * pitch;
    std::fill_n(zeros, block, 0);
    std::vector<const uint64_t*> y(terms);
    for (int64_t t = 0; t < terms; ++t) {
      const uint64_t* const from = x.typed_data() + ((x_entries[entry] * terms + t) * rows + row) * n + offset;
      y[t] = std::copy_n(from, count, memory + t * pitch) - count;
    }
    std::vector<ConversionTarget> targets(sums);
    for (int64_t s = 0; s < sums; ++s)
      targets[s] = {
          weights.typed_data() + ((weight_entries[entry] * sums + s) * limbs + row % limbs) * terms, 0, &q,
          out->typed_data() + ((entry * sums + s) * rows + row) * n + offset};
    ActiveKernels().combine(y.data(), zeros, terms, targets.data(), sums, count, q.value < kNarrow);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxWeightedSums, WeightedSumsHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli"));

}  // namespace fhejax
