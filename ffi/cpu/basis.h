// Change of basis in three steps, shared by the handlers that contain one: rows to coefficients, blocks of coefficients
// to other moduli, rows back to NTT form.
//
// A step is a loop over independent pieces of work that both halves of a ciphertext and all entries of a batch feed. In
// the second step a block of all source limbs stays in the first-level cache while the target limbs are made from it;
// in the first and third the rows of one limb are transformed together, so that its twiddles are read once for all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cpu/batch.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {

constexpr int64_t kBlock = 512;  // coefficients that one piece of coefficient-wise work takes

inline std::vector<const uint64_t*> RowsAt(const uint64_t* first, int64_t rows, int64_t stride, int64_t offset) {
  std::vector<const uint64_t*> pointers(rows);
  for (int64_t i = 0; i < rows; ++i) pointers[i] = first + i * stride + offset;
  return pointers;
}

// What a conversion starts from: to(limb, i) = the coefficients of from(limb, i), which is in NTT form, times
// (C/c)^-1 mod c, for each limb and i < rows. source(limb) is its SourceLimb.
template <typename Source, typename From, typename To>
void ToCoefficients(ffi::ThreadPool& pool, int64_t n, int64_t limbs, int64_t rows, const Source& source,
                    const From& from, const To& to) {
  // One limb's rows together, unless that leaves threads without work.
  const int64_t together = limbs >= 2 * pool.num_threads() ? rows : 1, parts = rows / together;
  ParallelFor(pool, limbs * parts, [&](int64_t task) {
    const int64_t limb = task / parts, first = task % parts * together;
    const SourceLimb& prime = source(limb);
    const NttTable& table = NttTableFor(n, prime.modulus);
    const uint64_t scale = Multiply(table.inverse_degree.value, prime.inverse.value, table.modulus);
    std::vector<const uint64_t*> in(together);
    std::vector<uint64_t*> out(together);
    for (int64_t i = 0; i < together; ++i) {
      in[i] = from(limb, first + i);
      out[i] = to(limb, first + i);
    }
    ActiveKernels().inverse_ntt(in.data(), out.data(), together, MakeFactor(scale, prime.modulus), table);
  });
}

// One polynomial to convert: y as ToCoefficients leaves it, its limbs n words apart.
struct Conversion {
  const BasisTable* table;
  const uint64_t* y;
};

// The coefficients of each of `conversions` modulo the targets first .. last - 1 of its table: into the row
// to(conversion, target), nowhere where that is null.
template <typename To>
void ConvertBlocks(ffi::ThreadPool& pool, int64_t n, const std::vector<Conversion>& conversions, int64_t first,
                   int64_t last, const To& to) {
  const int64_t block = std::min(n, kBlock), blocks = n / block;
  ParallelFor(pool, static_cast<int64_t>(conversions.size()) * blocks, [&](int64_t task) {
    const int64_t index = task / blocks, offset = task % blocks * block;
    const Conversion& conversion = conversions[index];
    const BasisTable& table = *conversion.table;
    const auto terms = static_cast<int64_t>(table.source.size());
    const auto y = RowsAt(conversion.y, terms, n, offset);
    uint64_t* const v = TaskScratch(block);
    ActiveKernels().overflow(y.data(), table.source.data(), terms, v, block);
    std::vector<ConversionTarget> targets;
    for (int64_t target = first; target < last; ++target)
      if (uint64_t* const row = to(index, target))
        targets.push_back({table.factors[target].data(), table.last[target], table.target[target], row + offset});
    ActiveKernels().combine(y.data(), v, terms, targets.data(), static_cast<int64_t>(targets.size()), block,
                            table.narrow);
  });
}

// Limbs are converted and transformed group by group, so that what one step writes is still in the cache when the next
// one reads it. How many limbs of so many rows a group takes: equal groups, of whole shares for the threads.
inline int64_t GroupSize(ffi::ThreadPool& pool, int64_t limbs, int64_t rows, int64_t n) {
  constexpr int64_t kGroupWords = 1 << 20;
  const int64_t threads = pool.num_threads(), most = std::max(kGroupWords / (rows * n), threads);
  const int64_t groups = (limbs + most - 1) / most, size = (limbs + groups - 1) / groups;
  return std::min(limbs, (size + threads - 1) / threads * threads);
}

}  // namespace fhejax
