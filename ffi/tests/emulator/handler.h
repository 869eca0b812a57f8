// A CUDA handler as a CPU handler: both stages in one call, on the emulator, and an error for whatever was found.
#pragma once

#include "cuda/call.h"
#include "emulator/emulator.h"

namespace fhejax::emulator {

template <ffi::DataType dtype, size_t rank>
void Add(Scope& scope, ffi::Buffer<dtype, rank>& operand) {
  scope.AddOperand(operand.untyped_data(), operand.size_bytes());
}
template <ffi::DataType dtype, size_t rank>
void Add(Scope& scope, ffi::Result<ffi::Buffer<dtype, rank>>& result) {
  scope.AddResult(result->untyped_data(), result->size_bytes());
}
inline void Add(Scope& scope, ffi::RemainingArgs& operands) {
  for (size_t i = 0; i < operands.size(); ++i) {
    const ffi::AnyBuffer operand = operands.get<ffi::AnyBuffer>(i).value();
    scope.AddOperand(operand.untyped_data(), operand.size_bytes());
  }
}
inline void Add(Scope& scope, ffi::RemainingRets& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const ffi::AnyBuffer result = *results.get<ffi::AnyBuffer>(i).value();
    scope.AddResult(result.untyped_data(), result.size_bytes());
  }
}
template <typename Attribute>
void Add(Scope&, const Attribute&) {}

template <auto function>
struct Staged;

template <typename... Arguments, ffi::Error (*function)(Call&, Arguments...)>
struct Staged<function> {
  static ffi::Error Run(Arguments... arguments) {
    Scope scope;
    (Add(scope, arguments), ...);
    for (const Call::Stage stage : {Call::Stage::kInitialize, Call::Stage::kExecute}) {
      Call call(stage, 0, nullptr);
      const ffi::Error error = function(call, arguments...);
      if (error.failure()) return error;
    }
    const std::string findings = scope.Findings();
    return findings.empty() ? ffi::Error::Success() : ffi::Error::Internal(findings);
  }
};

}  // namespace fhejax::emulator

#define FHEJAX_CUDA_SYMBOL(symbol, function, ...) \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(symbol, emulator::Staged<function>::Run, ffi::Ffi::Bind() __VA_ARGS__)
