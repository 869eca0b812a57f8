// What XLA gives a handler, without XLA: a thread pool, buffers and a call frame.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "xla/ffi/api/c_api.h"

#include "cpu/tables.h"

struct XLA_FFI_Error {
  std::string message;
};

namespace fhejax {

using Dimensions = std::vector<int64_t>;

inline int64_t Product(const Dimensions& dimensions) {
  int64_t product = 1;
  for (const int64_t size : dimensions) product *= size;
  return product;
}

class Workers {
 public:
  explicit Workers(int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([this] { Work(); });
  }
  ~Workers() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int64_t count() const { return static_cast<int64_t>(threads_.size()); }
  void Add(XLA_FFI_Task* task, void* data) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back({task, data});
    }
    changed_.notify_one();
  }

 private:
  void Work() {
    for (std::unique_lock<std::mutex> lock(mutex_);;) {
      changed_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const auto [task, data] = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      task(data);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<XLA_FFI_Task*, void*>> tasks_;
  bool closed_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

inline const XLA_FFI_Api& Api() {
  static const XLA_FFI_Api api = [] {
    XLA_FFI_Api functions{};
    functions.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    functions.XLA_FFI_ThreadPool_Schedule = [](XLA_FFI_ThreadPool_Schedule_Args* args) -> XLA_FFI_Error* {
      reinterpret_cast<Workers*>(args->ctx)->Add(args->task, args->data);
      return nullptr;
    };
    functions.XLA_FFI_ThreadPool_NumThreads = [](XLA_FFI_ThreadPool_NumThreads_Args* args) -> XLA_FFI_Error* {
      *args->num_threads = reinterpret_cast<Workers*>(args->ctx)->count();
      return nullptr;
    };
    functions.XLA_FFI_Error_Create = [](XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message}; };
    return functions;
  }();
  return api;
}

struct Array {
  XLA_FFI_DataType type;
  Dimensions shape;
  AlignedWords words;

  Array(XLA_FFI_DataType type, Dimensions shape) : type(type), shape(std::move(shape)) {
    const int64_t count = Product(this->shape);
    words.assign(type == XLA_FFI_DataType_U32 ? (count + 1) / 2 : type == XLA_FFI_DataType_C128 ? 2 * count : count, 0);
  }
  XLA_FFI_Buffer Buffer() {
    const auto rank = static_cast<int64_t>(shape.size());
    return {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, type, words.data(), rank, shape.data()};
  }
};

using Attribute = std::variant<std::vector<uint64_t>, std::vector<double>, int64_t, double>;

// What a handler is called with; `results` have the shapes of its results.
struct Call {
  std::string name;
  std::vector<Array> operands, results;
  std::map<std::string, Attribute> attributes;  // XLA sorts them too
};

// The attributes of a call as a call frame has them.
class AttributeTable {
 public:
  explicit AttributeTable(std::map<std::string, Attribute>& attributes) {
    for (auto& [name, value] : attributes) {
      spans_.push_back({name.data(), name.size()});
      std::visit([this](auto& attribute) { Add(attribute); }, value);
    }
    for (auto& span : spans_) names_.push_back(&span);
  }
  XLA_FFI_Attrs View() {
    return {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, static_cast<int64_t>(spans_.size()), types_.data(), names_.data(),
            values_.data()};
  }

 private:
  template <typename T>
  static constexpr XLA_FFI_DataType kType = std::is_same_v<T, double>    ? XLA_FFI_DataType_F64
                                            : std::is_same_v<T, int64_t> ? XLA_FFI_DataType_S64
                                                                         : XLA_FFI_DataType_U64;
  template <typename T>
  void Add(std::vector<T>& values) {
    arrays_.push_back({kType<T>, values.size(), values.data()});
    types_.push_back(XLA_FFI_AttrType_ARRAY);
    values_.push_back(&arrays_.back());
  }
  template <typename T>
  void Add(T& value) {
    scalars_.push_back({kType<T>, &value});
    types_.push_back(XLA_FFI_AttrType_SCALAR);
    values_.push_back(&scalars_.back());
  }

  std::deque<XLA_FFI_ByteSpan> spans_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<XLA_FFI_ByteSpan*> names_;
  std::vector<void*> values_;
};

using Handlers = std::map<std::string, XLA_FFI_Handler*>;  // by the name under which XLA knows them

// What the handler complains of, or nothing; fills the results.
inline std::string ErrorOf(Call& call, XLA_FFI_Handler* handler, Workers& workers) {
  std::vector<XLA_FFI_Buffer> buffers;
  std::vector<void*> pointers;
  for (auto* arrays : {&call.operands, &call.results})
    for (Array& array : *arrays) buffers.push_back(array.Buffer());
  for (XLA_FFI_Buffer& buffer : buffers) pointers.push_back(&buffer);
  const size_t operands = call.operands.size(), results = call.results.size();
  std::vector<XLA_FFI_ArgType> operand_types(operands, XLA_FFI_ArgType_BUFFER);
  std::vector<XLA_FFI_RetType> result_types(results, XLA_FFI_RetType_BUFFER);
  AttributeTable attributes(call.attributes);
  XLA_FFI_CallFrame frame{};
  frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
  frame.api = &Api();
  frame.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&workers);
  frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
  frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, static_cast<int64_t>(operands), operand_types.data(),
                pointers.data()};
  frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, static_cast<int64_t>(results), result_types.data(),
                pointers.data() + operands};
  frame.attrs = attributes.View();
  const std::unique_ptr<XLA_FFI_Error> error(handler(&frame));
  return error ? error->message : "";
}

// Runs the handler and returns its results. Several threads may run one call.
inline std::vector<Array> Run(Call call, XLA_FFI_Handler* handler, Workers& workers) {
  if (const std::string error = ErrorOf(call, handler, workers); !error.empty()) {
    std::fprintf(stderr, "%s: %s\n", call.name.c_str(), error.c_str());
    std::abort();
  }
  return std::move(call.results);
}

}  // namespace fhejax
