// Loops over registers, written out.
#pragma once

#include <type_traits>
#include <utility>

namespace fhejax {
namespace {

#define FHEJAX_FORCE_INLINE __attribute__((always_inline)) inline

// body(0), ..., body(kCount - 1), each with a constant for its index. gcc does not unroll nested loops over arrays of
// registers, even with constant bounds, and an index that is not a constant puts the registers into memory.
template <typename Body, int... kIndex>
FHEJAX_FORCE_INLINE void UnrollOver(const Body& body, std::integer_sequence<int, kIndex...>) {
  (body(std::integral_constant<int, kIndex>{}), ...);
}
template <int kCount, typename Body>
FHEJAX_FORCE_INLINE void Unroll(const Body& body) {
  UnrollOver(body, std::make_integer_sequence<int, kCount>{});
}
#define FHEJAX_EACH(i) [&](auto i) __attribute__((always_inline))

}  // namespace
}  // namespace fhejax
