// What a handler is given, and the checks by which handlers.gen.cc takes it from a call: whoever calls a handler, what does
// not fit its statement (fhejax/primitives/handlers.py) is an error, and nothing is read or written.
#pragma once

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <string>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace fhejax {

namespace ffi = xla::ffi;

using Shape = ffi::Span<const int64_t>;
using Moduli = ffi::Span<const uint64_t>;
using Places = ffi::Span<const double>;

// An operand or a result: batch axes, and behind them its own.
template <typename T>
struct Argument {
  T* data = nullptr;
  Shape shape;
  size_t own_axes = 0;
  int64_t entries = 0;  // the product of its batch axes

  Shape front(size_t axes) const { return shape.first(shape.size() - axes); }  // without so many last ones
  Shape batch() const { return front(own_axes); }
  int64_t axis(size_t i) const { return shape[shape.size() - own_axes + i]; }  // of its own ones
  int64_t bytes() const {
    int64_t count = entries;
    for (size_t i = 0; i < own_axes; ++i) count *= axis(i);
    return count * static_cast<int64_t>(sizeof(T));
  }
};

// A switching key u64[*batch, digits, 2, limbs(QP), N]; or a seeded one: the first halves of it, u64[*batch, digits,
// limbs(QP), N], and the seeds of the second, u32[*batch, 8].
struct KeyArgument {
  Argument<const uint64_t> residues;
  Argument<const uint32_t> seeds;  // no data: a full key

  bool seeded() const { return seeds.own_axes != 0; }
  int64_t digits() const { return residues.axis(0); }
  int64_t limbs() const { return residues.axis(residues.own_axes - 2); }
};

inline int64_t Ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t Broadcast(int64_t a, int64_t b) { return a == 1 ? b : a; }

// Where the regions of a workspace begin.
template <int kRegions>
struct Layout {
  int64_t starts[kRegions] = {}, words = 0;
  uint64_t* base = nullptr;

  // Region i lies behind the others, or from the beginning of `over` on.
  void Add(int i, int64_t size, int over = -1) {
    starts[i] = over < 0 ? words : starts[over];
    words = std::max(words, starts[i] + size);
  }
  uint64_t* At(int i) const { return base + starts[i]; }
};

// A call, from which a handler's struct takes what it states. Everything here that returns bool says whether the call fits;
// after the first that does not, error() says why.
class Given {
 public:
  Given(const char* handler, ffi::RemainingArgs operands, ffi::RemainingRets results, ffi::Dictionary attributes)
      : handler_(handler), operands_(operands), results_(results), attributes_(attributes) {}

  ffi::Error error() const { return ffi::Error::InvalidArgument(error_); }
  bool Refuse(const std::string& why);

  // How many attributes there are, and one of them.
  bool Attributes(size_t count);
  bool Attribute(const char* name, int64_t least, int64_t most, int64_t& value);
  bool Attribute(const char* name, size_t least, Moduli& values);
  bool Attribute(const char* name, Places& values);
  bool Attribute(const char* name, double& value);  // positive and finite

  // The next operand or result. `axes` are its own ones, as stated.
  int64_t operands() const { return static_cast<int64_t>(operands_.size()); }
  template <typename T>
  bool Operand(const char* name, const char* axes, size_t own_axes, Argument<T>& operand) {
    return TakeOperand(name, axes, own_axes, kType<T>, Take(operand));
  }
  template <typename T>
  bool Result(const char* name, const char* axes, size_t own_axes, Argument<T>& result) {
    return TakeResult(name, axes, own_axes, kType<T>, Take(result));
  }
  // The next key, of at least so many digits and limbs; `seeds` becomes the most that a key has.
  bool Key(const char* name, int64_t digits, int64_t limbs, int64_t n, KeyArgument& key, int64_t& seeds);
  // Whether so many operands, or results, can follow.
  bool Follow(const char* name, int64_t count);
  bool AllTaken(bool workspace);

  // An own axis of what was taken last.
  bool Axis(size_t i, int64_t size) { return last_[i] == size || RefuseLast(); }
  bool AxisAtLeast(size_t i, int64_t size) { return last_[i] >= size || RefuseLast(); }
  bool AxisNamed(size_t i, int64_t least, int64_t& name) { return (name = last_[i]) >= least || RefuseLast(); }

  bool PowerOfTwo(const char* name, int64_t least, int64_t n);
  bool Primes(const char* name, Moduli moduli, int64_t multiple, int64_t above);
  bool Distinct(std::initializer_list<Moduli> moduli);
  bool Elements(const char* name, Moduli elements, int64_t n);
  bool Below(const char* name, Moduli values, uint64_t least, uint64_t below);
  bool Workspace(int64_t words, uint64_t*& workspace);

  Shape batch() const { return {batch_.data(), batch_axes_}; }

 private:
  // What an Argument is filled through, whatever its type.
  struct Target {
    void** data;
    Shape* shape;
    size_t* own_axes;
    int64_t* entries;
  };
  template <typename T>
  static Target Take(Argument<T>& argument) {
    return {const_cast<void**>(reinterpret_cast<const void* const*>(&argument.data)), &argument.shape,
            &argument.own_axes, &argument.entries};
  }
  template <typename T>
  static constexpr ffi::DataType kType = std::is_same_v<std::remove_const_t<T>, uint64_t>   ? ffi::U64
                                         : std::is_same_v<std::remove_const_t<T>, uint32_t> ? ffi::U32
                                         : std::is_same_v<std::remove_const_t<T>, double>   ? ffi::F64
                                                                                            : ffi::C128;

  bool TakeOperand(const char* name, const char* axes, size_t own_axes, ffi::DataType type, Target to);
  bool TakeResult(const char* name, const char* axes, size_t own_axes, ffi::DataType type, Target to);
  bool TakeBuffer(const ffi::AnyBuffer& buffer, size_t own_axes, ffi::DataType type, Target to);
  bool RefuseLast();

  static constexpr size_t kBatchAxes = 32;

  const char* handler_;
  ffi::RemainingArgs operands_;
  ffi::RemainingRets results_;
  ffi::Dictionary attributes_;
  size_t next_operand_ = 0, next_result_ = 0;
  const char *name_ = "", *axes_ = "";  // of what was taken last, for words
  Shape shape_;
  const int64_t* last_ = nullptr;
  std::array<int64_t, kBatchAxes> batch_;
  size_t batch_axes_ = 0;
  bool has_batch_ = false;
  std::string error_;
};

// How many different elements there are besides 1, the identity.
int64_t CountSwitched(Moduli elements);
inline int64_t SizeOf(Moduli values) { return static_cast<int64_t>(values.size()); }

}  // namespace fhejax
