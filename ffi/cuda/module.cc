// The Python module: CUDA handlers for XLA, by stages, and what show_config() prints.

#include <nanobind/nanobind.h>

#include "cuda/handlers.h"

namespace nb = nanobind;

NB_MODULE(_cuda, m) {
  m.attr("XLA_FFI_API") = nb::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
  m.attr("ARCHITECTURES") = FHEJAX_CUDA_ARCHITECTURES;
  m.def("registrations", [] {
    nb::dict handlers;
    const auto stages = [](XLA_FFI_Handler* initialize, XLA_FFI_Handler* execute) {
      nb::dict bundle;
      bundle["initialize"] = nb::capsule(reinterpret_cast<void*>(initialize));
      bundle["execute"] = nb::capsule(reinterpret_cast<void*>(execute));
      return bundle;
    };
#define FHEJAX_REGISTER(Name, target) \
  handlers[target] = stages(&fhejax::Fhejax##Name##Initialize, &fhejax::Fhejax##Name);
    FHEJAX_HANDLERS(FHEJAX_REGISTER)
#undef FHEJAX_REGISTER
    return handlers;
  });
}
