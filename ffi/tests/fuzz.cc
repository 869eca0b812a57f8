// Calls that do not fit: each of SmallCalls() with a few changes, drawn at random, of sizes, types, attributes and numbers
// of arrays. Results and operands are allocations of their own; without the address sanitizer, words around them tell
// whether a call wrote there.

#include <cmath>
#include <csignal>
#include <cstring>
#include <random>
#include <unistd.h>

#include "tests/calls.h"

namespace fhejax {
namespace {

constexpr int64_t kMostWords = 1 << 20;  // of an array whose memory is there
constexpr unsigned kSeconds = 60;        // for a call

uint64_t seed;  // of the call that runs

void SayWhere(int signal) {
  char text[] = "fuzz: the call of seed 00000000000000000000 ends by signal 00\n";
  for (uint64_t i = 42, rest = seed; i > 22; --i, rest /= 10) text[i] = static_cast<char>('0' + rest % 10);
  text[59] = static_cast<char>('0' + signal / 10), text[60] = static_cast<char>('0' + signal % 10);
  [[maybe_unused]] const auto written = write(2, text, sizeof text - 1);
  _exit(3);
}

class Changes {
 public:
  explicit Changes(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  template <typename T, size_t n>
  T OneOf(const T (&values)[n]) {
    return values[Below(n)];
  }

  void Change(Call& call) {
    const uint64_t kind = Below(call.attributes.empty() ? 10 : 16);
    if (kind < 8) return ChangeArray(OneIn(2) && !call.operands.empty() ? call.operands : call.results);
    if (kind < 10) return ChangeNumber(OneIn(2) ? call.operands : call.results);
    ChangeAttribute(call.attributes);
  }

 private:
  // Another shape or type, and memory for it unless there is no such array.
  void ChangeArray(std::vector<Array>& arrays) {
    if (arrays.empty()) return;
    Array& array = arrays[Below(arrays.size())];
    Dimensions shape = array.shape;
    XLA_FFI_DataType type = array.type;
    const uint64_t kind = Below(10);
    if (kind == 0)
      type = OneOf({XLA_FFI_DataType_U32, XLA_FFI_DataType_U64, XLA_FFI_DataType_F64, XLA_FFI_DataType_C128,
                    XLA_FFI_DataType_S64});
    else if (kind == 1)
      shape.insert(shape.begin() + static_cast<int64_t>(Below(shape.size() + 1)), OneOf({1, 2, 3}));
    else if (shape.empty())
      return;
    else if (kind == 2)
      shape.erase(shape.begin() + static_cast<int64_t>(Below(shape.size())));
    else if (kind == 3)
      std::swap(shape[Below(shape.size())], shape[Below(shape.size())]);
    else
      ChangeSize(shape[Below(shape.size())]);
    const bool huge = Huge(shape);
    Array changed(type, huge ? Dimensions{8} : shape);
    changed.shape = shape;
    for (uint64_t& word : changed.words) word = Below(1 << 19);
    array = std::move(changed);
  }

  void ChangeSize(int64_t& size) {
    const int64_t huge[] = {-1, int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 62, INT64_MAX};
    size = OneIn(8) ? OneOf(huge) : OneOf({Sum(size, -1), Sum(size, 1), int64_t{0}, int64_t{1}, Sum(size, size), size / 2});
  }

  // Modulo 2^64.
  static int64_t Sum(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }

  static bool Huge(const Dimensions& shape) {
    int64_t words = 1;
    for (const int64_t size : shape) {
      if (size < 0 || size > kMostWords) return true;
      words *= std::max<int64_t>(size, 1);
      if (words > kMostWords) return true;
    }
    return false;
  }

  // One array less, or one twice.
  void ChangeNumber(std::vector<Array>& arrays) {
    if (arrays.empty()) return;
    const auto at = arrays.begin() + static_cast<int64_t>(Below(arrays.size()));
    if (OneIn(2))
      arrays.erase(at);
    else
      arrays.insert(at, Array(*at));
  }

  void ChangeAttribute(std::map<std::string, Attribute>& attributes) {
    const uint64_t kind = Below(12);
    if (kind == 0) {
      attributes["more"] = int64_t{1};
      return;
    }
    auto& [name, value] = *std::next(attributes.begin(), static_cast<int64_t>(Below(attributes.size())));
    if (kind == 1) {
      attributes.erase(std::string(name));
    } else if (kind == 2) {
      const Attribute others[] = {std::vector<uint64_t>{1, 2, 3}, std::vector<double>{1, 2}, int64_t{1}, 1.5};
      value = others[Below(4)];
    } else {
      std::visit([this](auto& inside) { ChangeValue(inside); }, value);
    }
  }

  void ChangeValue(int64_t& value) {
    value = OneOf({int64_t{0}, int64_t{-1}, int64_t{1}, Sum(value, 1), Sum(value, -1), Sum(value, value), int64_t{1} << 32,
                   INT64_MAX, INT64_MIN});
  }
  void ChangeValue(double& value) { value = OneOf({0.0, -1.0, value * 3, 1e300, 5e-324, HUGE_VAL, std::nan("")}); }
  template <typename T>
  void ChangeValue(std::vector<T>& values) {
    const uint64_t kind = Below(8);
    if (kind == 0) return values.clear();
    if (kind == 1) return values.push_back(values.empty() ? T{1} : values[Below(values.size())]);
    if (values.empty()) return;
    if (kind == 2) return values.pop_back();
    T& value = values[Below(values.size())];
    if (kind == 3) {
      value = values[Below(values.size())];
    } else if constexpr (std::is_same_v<T, double>) {
      ChangeValue(value);
    } else {
      value = OneOf({T{0}, T{1}, T{2}, T{3}, T{5}, T{17}, T{97}, value + 1, value + 2, value - 2, 3 * value, value * value,
                     T{1} << 61, T{1} << 63, ~T{0}, (T{1} << 61) - 1});
    }
  }

  std::mt19937_64 random_;
};

#ifdef __SANITIZE_ADDRESS__
constexpr int kSignals[] = {SIGABRT, SIGALRM};  // the sanitizer tells of the others, and aborts

void Guard(Call&) {}
void CheckGuards(const Call&) {}
#else
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
constexpr size_t kGuard = 8;  // words, behind each array
constexpr uint64_t kPattern = 0xa5a5a5a5a5a5a5a5;

void Guard(Call& call) {
  for (auto* arrays : {&call.operands, &call.results})
    for (Array& array : *arrays) array.words.resize(array.words.size() + kGuard, kPattern);
}

void CheckGuards(const Call& call) {
  for (const auto* arrays : {&call.operands, &call.results})
    for (const Array& array : *arrays)
      for (size_t i = 1; i <= kGuard; ++i)
        if (array.words[array.words.size() - i] != kPattern) {
          std::fprintf(stderr, "fuzz: the call of seed %llu wrote past an array\n", static_cast<unsigned long long>(seed));
          _exit(3);
        }
}
#endif

}  // namespace

int64_t Fuzz(const Handlers& handlers, uint64_t first, uint64_t count) {
  for (const int signal : kSignals) std::signal(signal, SayWhere);
  const Calls calls = SmallCalls();
  Workers workers(2);
  int64_t computed = 0;
  for (seed = first; seed < first + count; ++seed) {
    Changes changes(seed);
    Call call = calls[changes.Below(calls.size())];
    const uint64_t wanted = changes.OneIn(16) ? 0 : 1 + changes.Below(3);
    for (uint64_t i = 0; i < wanted; ++i) changes.Change(call);
    Guard(call);
    alarm(kSeconds);
    const std::string error = ErrorOf(call, handlers.at(call.name), workers);
    alarm(0);
    CheckGuards(call);
    computed += error.empty();
    if (wanted == 0 && !error.empty()) {
      std::fprintf(stderr, "fuzz: seed %llu: a call that fits is refused: %s\n", static_cast<unsigned long long>(seed),
                   error.c_str());
      _exit(3);
    }
  }
  return computed;
}

}  // namespace fhejax

// For Python: handlers by name.
extern "C" int64_t FhejaxFuzz(const char* const* names, void* const* handlers, int64_t handler_count, uint64_t first,
                              uint64_t count) {
  fhejax::Handlers by_name;
  for (int64_t i = 0; i < handler_count; ++i)
    by_name.emplace(names[i], reinterpret_cast<XLA_FFI_Handler*>(handlers[i]));
  return fhejax::Fuzz(by_name, first, count);
}
