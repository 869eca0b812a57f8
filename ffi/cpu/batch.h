// What operands have of a batch, and memory for results.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "common/statement.h"

namespace fhejax {

// For each entry of the batch, the entry of an operand that serves it: batch axes broadcast as in NumPy.
template <typename T>
std::vector<int64_t> EntriesOf(Shape batch, const Argument<T>& operand) {
  int64_t count = 1;
  for (const int64_t size : batch) count *= size;
  std::vector<int64_t> entries(count, 0);
  int64_t inner = count;
  for (size_t axis = 0; axis < batch.size() && count; ++axis) {
    inner /= batch[axis];
    const int64_t own = operand.shape[axis];
    for (int64_t e = 0; e < count; ++e) entries[e] = entries[e] * own + (own == 1 ? 0 : e / inner % own);
  }
  return entries;
}

// Asks for huge pages for a large result that has not been touched yet: one page fault instead of 512. The results of a
// program lie one behind the other, so the huge pages at its ends are asked for whole. A result that lies in memory used
// before is left as it is.
template <typename T>
void PrepareResult(const Argument<T>& out) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHugePage = uintptr_t{1} << 21, kPage = uintptr_t{1} << 12;
  const auto begin = reinterpret_cast<uintptr_t>(out.data), size = static_cast<uintptr_t>(out.bytes());
  if (size < kHugePage / 4) return;
  const uintptr_t end = begin + size;
  const uintptr_t first = begin / kHugePage * kHugePage, last = (end + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t page = (begin + kPage - 1) / kPage * kPage;
  unsigned char resident = 0;
  if (mincore(reinterpret_cast<void*>(page), 1, &resident) == 0 && !(resident & 1))
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

}  // namespace fhejax
