// AVX-512 without IFMA.

#include "cpu/kernels_generic.h"
#include "cpu/chacha20_avx512.h"
#include "cpu/rows_avx512.h"

namespace fhejax {

extern const Kernels kAvx512 = {
    "avx512",
    0,
    ForwardNtt64,
    ForwardHead64,
    ForwardTail64,
    InverseNtt64,
    AddRow,
    SubtractRow,
    Multiply64,
    Multiply64,
    MultiplyAdd64,
    MultiplyFactor64,
    SubtractMultiply64,
    SubtractMultiplyPermute64,
    Permute64,
    InnerProduct64,
    Combine64,
    Overflow64,
    ChaCha20Blocks512,
};

}  // namespace fhejax
