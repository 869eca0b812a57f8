// The CPU's handlers.
#pragma once

#include <new>

#include "common/handlers.gen.h"

namespace fhejax {

// A call that fits the statement is run; any other is an error.
template <typename Stated, void (*run)(ffi::ThreadPool&, const Stated&)>
ffi::Error RunStated(ffi::ThreadPool pool, ffi::RemainingArgs operands, ffi::RemainingRets results,
                     ffi::Dictionary attributes) try {
  Given given(Stated::kName, operands, results, attributes);
  Stated stated;
  if (!stated.Take(given, false)) return given.error();
  if (stated.batch > 0) run(pool, stated);  // of none, results are empty
  return ffi::Error::Success();
} catch (const std::bad_alloc&) {
  return ffi::Error(ffi::ErrorCode::kResourceExhausted, std::string(Stated::kName) + ": no memory");
}

// Defines the handler of this name by void run(ffi::ThreadPool&, const handlers::Name&).
#define FHEJAX_CPU_HANDLER(Name, run)                                            \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(Fhejax##Name, (RunStated<handlers::Name, run>), \
                                ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs())

#define FHEJAX_DECLARE(Name, target) XLA_FFI_DECLARE_HANDLER_SYMBOL(Fhejax##Name);
FHEJAX_HANDLERS(FHEJAX_DECLARE)
#undef FHEJAX_DECLARE

}  // namespace fhejax
