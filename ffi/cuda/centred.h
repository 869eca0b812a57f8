// Residues to the centred integers that they stand for, as doubles.
#pragma once

#include "cuda/call.h"

namespace fhejax {

using Places = ffi::Span<const double>;  // the product of the moduli below each, as doubles

// x: u64[entries, moduli, N], coefficients, reduced -> f64[entries, N].
void LaunchCentredValues(Call& call, const uint64_t* x, uint32_t entries, uint32_t n, Moduli moduli, Places places,
                         double* out);

}  // namespace fhejax
