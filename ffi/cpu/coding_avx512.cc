#include "cpu/coding_avx512.h"

namespace fhejax {

extern const CodingKernels kCodingAvx512 = {
    RoundProduct512, ReduceSignedRow, CentredValues, CoefficientsToSlots, SlotsToCoefficients, ReduceNumbers,
    TernaryRow,      Gaussian512,     SpreadRow,     SpreadTernaryRow,    CentredErrorRow,     ScaleSignedRow,
};

}  // namespace fhejax
