// Every CUDA handler, under the name of the CPU's (ffi/cpu/handlers.h), with the same operands, attributes and results,
// and with a workspace as the last result where the lowering gives it one.
#pragma once

#include "xla/ffi/api/ffi.h"

namespace fhejax {

#define FHEJAX_CUDA_HANDLERS(X)                        \
  X(FhejaxAdd, "fhejax_add_v1")                        \
  X(FhejaxSubtract, "fhejax_subtract_v1")              \
  X(FhejaxMultiply, "fhejax_multiply_v1")              \
  X(FhejaxMultiplyAdd, "fhejax_multiply_add_v1")       \
  X(FhejaxMultiplyScalar, "fhejax_multiply_scalar_v1") \
  X(FhejaxNtt, "fhejax_ntt_v1")                        \
  X(FhejaxInverseNtt, "fhejax_inverse_ntt_v1")         \
  X(FhejaxAutomorphism, "fhejax_automorphism_v1")      \
  X(FhejaxConvertBasis, "fhejax_convert_basis_v1")     \
  X(FhejaxModRaise, "fhejax_mod_raise_v1")             \
  X(FhejaxModDown, "fhejax_mod_down_v1")

#define FHEJAX_DECLARE(symbol, name)      \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(symbol); \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(symbol##Initialize);
FHEJAX_CUDA_HANDLERS(FHEJAX_DECLARE)
#undef FHEJAX_DECLARE

}  // namespace fhejax
