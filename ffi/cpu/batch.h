// Shapes of handler operands: leading batch axes that broadcast, then the operand's own axes.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "common/shapes.h"

namespace fhejax {

// The operands' common batch, broadcast as in NumPy: every operand has the same number of batch axes.
class Batch {
 public:
  explicit Batch(Dimensions shape) : shape_(std::move(shape)), count_(Product(shape_, 0, shape_.size())) {}

  int64_t count() const { return count_; }

  // For each entry of the batch, the entry of an operand whose batch axes are the first ones of `operand`; empty if
  // they do not fit.
  std::vector<int64_t> Entries(const Dimensions& operand, size_t own_axes) const {
    if (operand.size() != shape_.size() + own_axes) return {};
    std::vector<int64_t> entries(count_, 0);
    for (size_t axis = 0; axis < shape_.size(); ++axis) {
      if (operand[axis] != 1 && operand[axis] != shape_[axis]) return {};
      const int64_t inner = Product(shape_, axis + 1, shape_.size());
      for (int64_t e = 0; e < count_; ++e) {
        const int64_t index = operand[axis] == 1 ? 0 : e / inner % shape_[axis];
        entries[e] = entries[e] * operand[axis] + index;
      }
    }
    return entries;
  }

 private:
  Dimensions shape_;
  int64_t count_;
};

// Asks for huge pages for a large result that has not been touched yet: one page fault instead of 512. The results of a
// program lie one behind the other, so the huge pages at its ends are asked for whole. A result that lies in memory used
// before is left as it is.
template <typename Buffer>
void PrepareResult(Buffer& out) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHugePage = uintptr_t{1} << 21, kPage = uintptr_t{1} << 12;
  const auto begin = reinterpret_cast<uintptr_t>(out->untyped_data()), end = begin + out->size_bytes();
  if (out->size_bytes() < kHugePage / 4) return;
  const uintptr_t first = begin / kHugePage * kHugePage, last = (end + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t page = (begin + kPage - 1) / kPage * kPage;
  unsigned char resident = 0;
  if (mincore(reinterpret_cast<void*>(page), 1, &resident) == 0 && !(resident & 1))
    madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

inline Batch BatchOf(const Dimensions& shape, size_t own_axes) {
  return Batch(Dimensions(shape.begin(), shape.end() - static_cast<int64_t>(own_axes)));
}

}  // namespace fhejax
