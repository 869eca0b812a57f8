// Operands, results and attributes of handlers.
#pragma once

#include <cstdint>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace fhejax {

namespace ffi = xla::ffi;

using Input = ffi::Buffer<ffi::U64>;
using Output = ffi::ResultBuffer<ffi::U64>;
using Moduli = ffi::Span<const uint64_t>;

using Dimensions = std::vector<int64_t>;

template <typename Buffer>
Dimensions ShapeOf(const Buffer& buffer) {
  const auto dimensions = buffer.dimensions();
  return Dimensions(dimensions.begin(), dimensions.end());
}

inline int64_t Product(const Dimensions& dimensions, size_t first, size_t last) {
  int64_t product = 1;
  for (size_t i = first; i < last; ++i) product *= dimensions[i];
  return product;
}

}  // namespace fhejax
