// The CUDA handlers, with the CPU's operands, attributes and results, and with a workspace as the last result where the
// statement has one. Each has two stages: see call.h.
#pragma once

#include "common/handlers.gen.h"
#include "cuda/call.h"

namespace fhejax {

constexpr int64_t kMostEntries = int64_t{1} << 26;  // of a batch: twice as many are counted in 32 bits

// A call that fits the statement is run; any other is an error.
template <typename Stated, void (*run)(Call&, const Stated&)>
ffi::Error RunStated(Call& call, ffi::RemainingArgs operands, ffi::RemainingRets results, ffi::Dictionary attributes) {
  Given given(Stated::kName, operands, results, attributes);
  Stated stated;
  if (!stated.Take(given, true)) return given.error();
  if (stated.batch > kMostEntries) call.RefuseArguments("the batch is too large for one launch");
  if (stated.batch > 0) run(call, stated);  // of none, results are empty
  return call.Result();
}

// Defines the handler of this name by void run(Call&, const handlers::Name&).
#define FHEJAX_CUDA_HANDLER(Name, run)                                \
  FHEJAX_CUDA_SYMBOL(Fhejax##Name, (&RunStated<handlers::Name, run>), \
                     .RemainingArgs().RemainingRets().Attrs())

#define FHEJAX_DECLARE(Name, target)            \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(Fhejax##Name); \
  XLA_FFI_DECLARE_HANDLER_SYMBOL(Fhejax##Name##Initialize);
FHEJAX_HANDLERS(FHEJAX_DECLARE)
#undef FHEJAX_DECLARE

}  // namespace fhejax
