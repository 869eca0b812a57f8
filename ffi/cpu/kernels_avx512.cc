#define FHEJAX_KERNELS kAvx512
#define FHEJAX_KERNELS_NAME "avx512"
#include "cpu/kernels_generic.h"
