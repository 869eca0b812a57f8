// One call of a handler, and how a handler is defined.
//
// XLA calls a handler's *initialize* stage before each run, outside of command buffers, and its *execute* stage to
// launch, perhaps into a command buffer. Here both are one function of a Call and what it is given: in initialize its tables are made and its launches left out; in execute its tables are found and it
// launches, and does nothing else on the device.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/statement.h"
#include "cuda/device.h"
#include "cuda/device_tables.h"

namespace fhejax {

class Call {
 public:
  enum class Stage { kInitialize, kExecute };

  Call(Stage stage, int device, cudaStream_t stream) : stage_(stage), device_(device), stream_(stream) {}

  int device() const { return device_; }

  // make() as an array on the device, made once a device and kept for the life of the process. `words` with the name
  // say all that make() depends on. Null after an error.
  template <typename T, typename Make>
  const T* Table(const char* name, std::vector<uint64_t> words, const Make& make) {
    const TableKey key{device_, name, std::move(words)};
    if (!error_.empty()) return nullptr;
    if (const void* const table = FindTable(key)) return static_cast<const T*>(table);
    if (stage_ == Stage::kExecute) {
      Refuse(ffi::ErrorCode::kInternal, std::string("the table ") + name + " was not made before the call");
      return nullptr;
    }
    const std::vector<T> host = make();
    if (!error_.empty()) return nullptr;
    const void* table = nullptr;
    Expect(MakeTable(key, host.data(), host.size() * sizeof(T), &table), name);
    return static_cast<const T*>(table);
  }

  // Launches in execute, in the order of the calls; nothing after an error, and nothing for no blocks.
  template <typename... Parameters, typename... Values>
  void Launch(void (*kernel)(Parameters...), uint64_t blocks, dim3 block, size_t shared_bytes, const Values&... values) {
    if (blocks > INT32_MAX) Refuse(ffi::ErrorCode::kInvalidArgument, "an operand is too large for one launch");
    if (!error_.empty() || blocks == 0) return;
    Expect(stage_ == Stage::kInitialize ? AllowSharedMemory(kernel, shared_bytes)
                                        : LaunchKernel(stream_, kernel, dim3(static_cast<unsigned>(blocks)), block,
                                                       shared_bytes, values...),
           "a launch");
  }

  void Refuse(ffi::ErrorCode code, std::string message) {
    if (error_.empty()) code_ = code, error_ = std::move(message);
  }
  void RefuseArguments(std::string message) { Refuse(ffi::ErrorCode::kInvalidArgument, std::move(message)); }

  // What the handler returns: the first error, if any.
  ffi::Error Result() const { return error_.empty() ? ffi::Error::Success() : ffi::Error(code_, "fhejax: " + error_); }

 private:
  void Expect(cudaError_t status, const char* what) {
    if (status != cudaSuccess) Refuse(ffi::ErrorCode::kInternal, std::string(what) + ": " + cudaGetErrorString(status));
  }

  Stage stage_;
  int device_;
  cudaStream_t stream_;
  ffi::ErrorCode code_ = ffi::ErrorCode::kOk;
  std::string error_;
};

}  // namespace fhejax

// FHEJAX_CUDA_SYMBOL(symbol, function, binding): `binding` is what follows Ffi::Bind(), without contexts.
#ifdef FHEJAX_EMULATE
#include "emulator/handler.h"
#else

namespace fhejax {

template <auto function>
struct Staged;

template <typename... Arguments, ffi::Error (*function)(Call&, Arguments...)>
struct Staged<function> {
  static ffi::Error Initialize(int32_t device, Arguments... arguments) {
    Call call(Call::Stage::kInitialize, device, nullptr);
    return function(call, arguments...);
  }
  static ffi::Error Execute(int32_t device, cudaStream_t stream, Arguments... arguments) {
    Call call(Call::Stage::kExecute, device, stream);
    return function(call, arguments...);
  }
};

}  // namespace fhejax

#define FHEJAX_CUDA_SYMBOL(symbol, function, ...)                                                                       \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(symbol##Initialize, Staged<function>::Initialize,                                       \
                                ffi::Ffi::BindInitialize().Ctx<ffi::DeviceOrdinal>() __VA_ARGS__,                       \
                                {ffi::Traits::kCmdBufferCompatible});                                                   \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                                        \
      symbol, Staged<function>::Execute,                                                                                \
      ffi::Ffi::Bind().Ctx<ffi::DeviceOrdinal>().Ctx<ffi::PlatformStream<cudaStream_t>>() __VA_ARGS__,                  \
      {ffi::Traits::kCmdBufferCompatible})

#endif
