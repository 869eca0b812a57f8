#define FHEJAX_CODING kCodingPortable
#include "cpu/coding_generic.h"
