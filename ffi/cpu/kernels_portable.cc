#define FHEJAX_KERNELS kPortable
#define FHEJAX_KERNELS_NAME "portable"
#include "cpu/kernels_generic.h"
