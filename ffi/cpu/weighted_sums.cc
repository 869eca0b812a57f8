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

void WeightedSums(ffi::ThreadPool& pool, const handlers::WeightedSums& in) {
  PrepareResult(in.out);
  const int64_t n = in.values, limbs = in.limbs, components = in.components, terms = in.terms, sums = in.sums;
  const auto x_entries = EntriesOf(in.out.batch(), in.x), weight_entries = EntriesOf(in.out.batch(), in.weights);
  const int64_t block = BlockOf(n, terms), blocks = (n + block - 1) / block, rows = components * limbs;
  ParallelFor(pool, in.batch * rows * blocks, [&](int64_t task) {
    const int64_t entry = task / (rows * blocks), row = task / blocks % rows, offset = task % blocks * block;
    const int64_t count = std::min(block, n - offset);
    const Modulus& q = ModulusFor(in.moduli[row % limbs]);
    // Rows of a ciphertext lie a power of two apart, and would all fall into the same few lines of the cache; a line
    // between the copies spreads them.
    const int64_t pitch = block + kLine;
    uint64_t* const memory = TaskScratch(terms * pitch + block);
    uint64_t* const zeros = memory + terms * pitch;
    std::fill_n(zeros, block, 0);
    std::vector<const uint64_t*> y(terms);
    for (int64_t t = 0; t < terms; ++t) {
      const uint64_t* const from = in.x.data + ((x_entries[entry] * terms + t) * rows + row) * n + offset;
      y[t] = std::copy_n(from, count, memory + t * pitch) - count;
    }
    std::vector<ConversionTarget> targets(sums);
    for (int64_t s = 0; s < sums; ++s)
      targets[s] = {
          in.weights.data + ((weight_entries[entry] * sums + s) * limbs + row % limbs) * terms, 0, &q,
          in.out.data + ((entry * sums + s) * rows + row) * n + offset};
    ActiveKernels().combine(y.data(), zeros, terms, targets.data(), sums, count, q.value < kNarrow);
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(WeightedSums, WeightedSums);

}  // namespace fhejax
