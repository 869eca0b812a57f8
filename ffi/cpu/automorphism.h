#pragma once

#include <cstdint>
#include <vector>

namespace fhejax {

// out[i] = in[source[i]] carries the values of m(X) to those of m(X^element), both in bit-reversed order.
const std::vector<uint32_t>& AutomorphismSource(int64_t degree, int64_t element);

}  // namespace fhejax
