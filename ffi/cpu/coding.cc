#include "cpu/coding.h"

#include "cpu/kernels.h"

namespace fhejax {

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
