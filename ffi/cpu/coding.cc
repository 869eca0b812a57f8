#include "cpu/coding.h"

#include <algorithm>
#include <cstring>

#include "cpu/kernels.h"

namespace fhejax {

Float Split(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int field = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {field ? fraction | uint64_t{1} << 52 : fraction, std::max(field, 1) - 1075, bits >> 63 != 0};
}

const CodingKernels& ActiveCoding() {
#ifdef FHEJAX_X86
  const Kernels* const kernels = &ActiveKernels();
  if (kernels == &kIfma) return kCodingIfma;
  if (kernels == &kAvx512) return kCodingAvx512;
  if (kernels == &kAvx2) return kCodingAvx2;
#endif
  return kCodingPortable;
}

}  // namespace fhejax
