// The Python module: handlers for XLA, and what show_config() prints.

#include <nanobind/nanobind.h>

#include "cpu/handlers.h"
#include "cpu/kernels.h"

namespace nb = nanobind;

NB_MODULE(_cpu, m) {
  m.attr("XLA_FFI_API") = nb::make_tuple(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR);
  m.def("registrations", [] {
    nb::dict handlers;
#define FHEJAX_REGISTER(Name, target) handlers[target] = nb::capsule(reinterpret_cast<void*>(&fhejax::Fhejax##Name));
    FHEJAX_HANDLERS(FHEJAX_REGISTER)
#undef FHEJAX_REGISTER
    return handlers;
  });
  m.def("instruction_set", [] { return nb::str(fhejax::ActiveKernels().name); });
  m.def("choose_instruction_set", [](const char* name) {
    if (!fhejax::ChooseKernels(name)) throw nb::value_error("this machine has no such instruction set");
  });
  m.def("instruction_sets", [] {
    nb::list names;
    for (const fhejax::Kernels* kernels : fhejax::AvailableKernels()) names.append(nb::str(kernels->name));
    return names;
  });
}
