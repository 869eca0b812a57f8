#define FHEJAX_KERNELS kAvx2
#define FHEJAX_KERNELS_NAME "avx2"
#include "cpu/kernels_generic.h"
