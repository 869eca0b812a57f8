// The CUDA handlers, with the operands, attributes and results of the CPU's, and with a workspace as the last result
// where the lowering gives them one. Each has two stages: see call.h.
#pragma once

#include "common/handlers.h"

namespace fhejax {

#define FHEJAX_DECLARE(symbol, name)      \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(symbol); \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(symbol##Initialize);
FHEJAX_HANDLERS(FHEJAX_DECLARE)
#undef FHEJAX_DECLARE

}  // namespace fhejax
