// Transforms of rows: natural order of coefficients, bit-reversed order of values (Cooley-Tukey, Gentleman-Sande).
#pragma once

#include "cuda/limbs.h"

namespace fhejax {

// How a transform is cut. The first `log_first` stages of the forward transform are transforms of columns, N / 2^log_first
// apart, the others of rows; at log_first = 0 there are only rows, one a block. The inverse goes the other way.
struct NttShape {
  int log_first;
  int log_columns, log_rows;  // of a block; a thread has eight words of a column or row, 256 threads at most
};

NttShape NttShapeOf(int log_degree);

// Rows [limbs, N] of each batch entry, entries this many words apart. `from` and `to` may be the same.
struct NttRows {
  const uint64_t* from;
  uint64_t* to;
  uint64_t from_stride, to_stride;
  uint32_t entries, limbs;
  int log_degree;
};

// From reduced words to reduced words; `limbs` from TransformLimbsOf.
void LaunchNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape);
void LaunchInverseNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape);

}  // namespace fhejax
