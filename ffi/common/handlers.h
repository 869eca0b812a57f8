// Every handler, of the CPU and of CUDA alike.
#pragma once

#include "xla/ffi/api/ffi.h"

// Name in C++, and the name under which XLA knows it. A change of operands, attributes or results takes a new
// version: exported programs and cached executables refer to handlers by name.
#define FHEJAX_HANDLERS(X)                                        \
  X(FhejaxAdd, "fhejax_add_v1")                                   \
  X(FhejaxSubtract, "fhejax_subtract_v1")                         \
  X(FhejaxMultiply, "fhejax_multiply_v1")                         \
  X(FhejaxMultiplyAdd, "fhejax_multiply_add_v1")                  \
  X(FhejaxMultiplyScalar, "fhejax_multiply_scalar_v1")            \
  X(FhejaxNtt, "fhejax_ntt_v1")                                   \
  X(FhejaxInverseNtt, "fhejax_inverse_ntt_v1")                    \
  X(FhejaxAutomorphism, "fhejax_automorphism_v1")                 \
  X(FhejaxSlotsToCoefficients, "fhejax_slots_to_coefficients_v1") \
  X(FhejaxCoefficientsToSlots, "fhejax_coefficients_to_slots_v1") \
  X(FhejaxRoundToResidues, "fhejax_round_to_residues_v1")         \
  X(FhejaxResiduesToFloat, "fhejax_residues_to_float_v1")         \
  X(FhejaxEncodeCoefficients, "fhejax_encode_coefficients_v1")    \
  X(FhejaxDecodeCoefficients, "fhejax_decode_coefficients_v1")    \
  X(FhejaxEncryptPublic, "fhejax_encrypt_public_v1")              \
  X(FhejaxDecryptCoefficients, "fhejax_decrypt_coefficients_v1")  \
  X(FhejaxConvertBasis, "fhejax_convert_basis_v1")                \
  X(FhejaxModRaise, "fhejax_mod_raise_v1")                        \
  X(FhejaxModDown, "fhejax_mod_down_v1")                          \
  X(FhejaxInnerProduct, "fhejax_inner_product_v1")                \
  X(FhejaxGadgetProduct, "fhejax_gadget_product_v1")              \
  X(FhejaxKeySwitch, "fhejax_key_switch_v1")                      \
  X(FhejaxMultiplyCiphertexts, "fhejax_multiply_ciphertexts_v1")  \
  X(FhejaxRelinearizeRescale, "fhejax_relinearize_rescale_v1")    \
  X(FhejaxHoistedRotations, "fhejax_hoisted_rotations_v1")        \
  X(FhejaxHoistedSums, "fhejax_hoisted_sums_v1")                  \
  X(FhejaxAddRotation, "fhejax_add_rotation_v1")                  \
  X(FhejaxWeightedSums, "fhejax_weighted_sums_v1")                \
  X(FhejaxCombination, "fhejax_combination_v1")                   \
  X(FhejaxChaCha20, "fhejax_chacha20_v1")                         \
  X(FhejaxSampleUniform, "fhejax_sample_uniform_v1")              \
  X(FhejaxSampleTernary, "fhejax_sample_ternary_v1")              \
  X(FhejaxSampleGaussian, "fhejax_sample_gaussian_v1")            \
  X(FhejaxSampleSparseTernary, "fhejax_sample_sparse_ternary_v1") \
  X(FhejaxSwitchingKey, "fhejax_switching_key_v1")
