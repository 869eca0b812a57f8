// The CPU's handlers.
#pragma once

#include "common/handlers.h"

namespace fhejax {

#define FHEJAX_DECLARE(symbol, name) XLA_FFI_DECLARE_HANDLER_SYMBOL(symbol);
FHEJAX_HANDLERS(FHEJAX_DECLARE)
#undef FHEJAX_DECLARE

}  // namespace fhejax
