#define FHEJAX_CODING kCodingAvx2
#include "cpu/coding_generic.h"
