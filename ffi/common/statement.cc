#include "common/statement.h"

#include <algorithm>
#include <atomic>

#include "common/handlers.gen.h"
#include "common/roots.h"
#include "common/rounding.h"

namespace fhejax {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;    // of an array
constexpr int64_t kMostSize = (int64_t{1} << 31) - 1;  // of an axis

// Whether q is prime, from a table of primes that have been asked for: a place holds the last one of those that share it.
bool IsKnownPrime(uint64_t q) {
  constexpr int kLogPlaces = 10;
  static std::array<std::atomic<uint64_t>, 1 << kLogPlaces> known{};
  std::atomic<uint64_t>& place = known[q * 0x9E3779B97F4A7C15u >> (64 - kLogPlaces)];
  if (place.load(std::memory_order_relaxed) == q) return true;
  if (!IsPrime(q)) return false;
  place.store(q, std::memory_order_relaxed);
  return true;
}

std::string TextOf(Shape shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace

int64_t CountSwitched(Moduli elements) {
  int64_t count = 0;
  for (const uint64_t* each = elements.begin(); each != elements.end(); ++each)
    count += *each != 1 && std::find(elements.begin(), each, *each) == each;
  return count;
}

bool Given::Refuse(const std::string& why) {
  error_ = std::string(handler_) + ": " + why;
  return false;
}

bool Given::RefuseLast() {
  return Refuse(std::string(name_) + " has shape " + TextOf(shape_) + "; its own axes are (" + axes_ + ")");
}

bool Given::Attributes(size_t count) {
  return attributes_.size() == count || Refuse("takes " + std::to_string(count) + " attributes");
}

bool Given::Attribute(const char* name, int64_t least, int64_t most, int64_t& value) {
  const auto given = attributes_.get<int64_t>(name);
  if (!given.has_value()) return Refuse(std::string(name) + " is not there as an int64");
  value = *given;
  return (value >= least && value <= most) || Refuse(std::string(name) + " = " + std::to_string(value) + " is out of range");
}

bool Given::Attribute(const char* name, size_t least, Moduli& values) {
  const auto given = attributes_.get<Moduli>(name);
  if (!given.has_value()) return Refuse(std::string(name) + " is not there as an array of uint64");
  values = *given;
  if (values.size() >= least && values.size() <= kMostNumbers) return true;
  return Refuse(std::string(name) + " has " + std::to_string(values.size()) + " numbers");
}

bool Given::Attribute(const char* name, Places& values) {
  const auto given = attributes_.get<Places>(name);
  if (!given.has_value()) return Refuse(std::string(name) + " is not there as an array of float64");
  values = *given;
  return true;
}

bool Given::Attribute(const char* name, double& value) {
  const auto given = attributes_.get<double>(name);
  if (!given.has_value()) return Refuse(std::string(name) + " is not there as a float64");
  value = *given;
  // By its bits: XLA's threads take denormal numbers for 0.
  const uint64_t bits = BitsOf(value), infinity = uint64_t{0x7FF} << 52;
  return (bits > 0 && bits < infinity) || Refuse(std::string(name) + " is not positive and finite");
}

bool Given::TakeBuffer(const ffi::AnyBuffer& buffer, size_t own_axes, ffi::DataType type, Target to) {
  shape_ = buffer.dimensions();
  if (buffer.element_type() != type) return Refuse(std::string(name_) + " has another type of elements than stated");
  if (shape_.size() < own_axes || shape_.size() > kBatchAxes) return RefuseLast();
  int64_t elements = 1;
  for (const int64_t size : shape_) {
    if (size < 0 || size > kMostSize) return RefuseLast();
    elements *= std::max<int64_t>(size, 1);  // so that no product of a few of them is larger
    if (elements > kMostElements) return RefuseLast();
  }
  last_ = shape_.end() - own_axes;
  *to.data = buffer.untyped_data();
  *to.shape = shape_;
  *to.own_axes = own_axes;
  *to.entries = 1;
  for (const int64_t* size = shape_.begin(); size != last_; ++size) *to.entries *= *size;
  return true;
}

bool Given::TakeOperand(const char* name, const char* axes, size_t own_axes, ffi::DataType type, Target to) {
  name_ = name, axes_ = axes;
  const auto buffer = operands_.get<ffi::AnyBuffer>(next_operand_++);
  if (!buffer.has_value()) return Refuse(std::string(name) + " is missing");
  if (!TakeBuffer(*buffer, own_axes, type, to)) return false;
  const size_t axes_in_front = shape_.size() - own_axes;
  if (!has_batch_) {
    has_batch_ = true;
    batch_axes_ = axes_in_front;
    std::copy(shape_.begin(), last_, batch_.begin());
    return true;
  }
  bool fits = axes_in_front == batch_axes_;
  for (size_t i = 0; i < batch_axes_ && fits; ++i) {
    fits = shape_[i] == batch_[i] || shape_[i] == 1 || batch_[i] == 1;
    batch_[i] = Broadcast(batch_[i], shape_[i]);
  }
  return fits || Refuse(std::string("the batch axes of ") + name + ", which has shape " + TextOf(shape_) + ", do not broadcast");
}

bool Given::TakeResult(const char* name, const char* axes, size_t own_axes, ffi::DataType type, Target to) {
  name_ = name, axes_ = axes;
  auto buffer = results_.get<ffi::AnyBuffer>(next_result_++);
  if (!buffer.has_value()) return Refuse(std::string("the result ") + name + " is missing");
  if (!TakeBuffer(**buffer, own_axes, type, to)) return false;
  return (shape_.size() - own_axes == batch_axes_ && std::equal(shape_.begin(), last_, batch_.begin())) || RefuseLast();
}

bool Given::Key(const char* name, int64_t digits, int64_t limbs, int64_t n, KeyArgument& key, int64_t& seeds) {
  const auto next = operands_.get<ffi::AnyBuffer>(next_operand_ + 1);
  const bool seeded = next.has_value() && next->element_type() == ffi::U32;
  const char* const axes = seeded ? "at least digits, at least limbs, N" : "at least digits, 2, at least limbs, N";
  const size_t own = seeded ? 3 : 4;
  if (!(Operand(name, axes, own, key.residues) && AxisAtLeast(0, digits) && (seeded || Axis(1, 2)) &&
        AxisAtLeast(own - 2, limbs) && Axis(own - 1, n)))
    return false;
  if (!seeded) return true;
  if (!(Operand("the seeds of a key", "8", 1, key.seeds) && Axis(0, 8))) return false;
  seeds = std::max(seeds, key.seeds.entries);
  return true;
}

bool Given::Follow(const char* name, int64_t count) {
  if (count >= 0 && count <= kMostNumbers) return true;
  return Refuse(std::to_string(count) + " arrays for " + name);
}

bool Given::AllTaken(bool workspace) {
  const size_t results = next_result_ + workspace;
  if (next_operand_ == operands_.size() && results == results_.size()) return true;
  return Refuse("takes " + std::to_string(next_operand_) + " operands and " + std::to_string(results) + " results, got " +
                std::to_string(operands_.size()) + " and " + std::to_string(results_.size()));
}

bool Given::PowerOfTwo(const char* name, int64_t least, int64_t n) {
  if (n >= least && n <= kMostDegree && (n & (n - 1)) == 0) return true;
  return Refuse(std::string(name) + " = " + std::to_string(n) + " is no power of two from " + std::to_string(least) + " to 2^20");
}

bool Given::Primes(const char* name, Moduli moduli, int64_t multiple, int64_t above) {
  const auto mask = static_cast<uint64_t>(multiple) - 1;
  for (const uint64_t q : moduli) {
    const bool odd = (q & 1) && q >= kLeastPrime && q < kPastPrimes && q > static_cast<uint64_t>(above);
    if (!odd || ((q - 1) & mask) != 0 || !IsKnownPrime(q))
      return Refuse(std::string(name) + " has " + std::to_string(q) + "; needs primes below 2^61, 1 modulo " +
                    std::to_string(multiple));
  }
  return true;
}

bool Given::Distinct(std::initializer_list<Moduli> moduli) {
  for (const Moduli* a = moduli.begin(); a != moduli.end(); ++a)
    for (const uint64_t* q = a->begin(); q != a->end(); ++q) {
      bool again = std::find(a->begin(), q, *q) != q;
      for (const Moduli* b = moduli.begin(); b != a; ++b) again = again || std::find(b->begin(), b->end(), *q) != b->end();
      if (again) return Refuse("a modulus is there twice: " + std::to_string(*q));
    }
  return true;
}

bool Given::Elements(const char* name, Moduli elements, int64_t n) {
  for (const uint64_t element : elements)
    if (element % 2 == 0 || element >= 2 * static_cast<uint64_t>(n))
      return Refuse(std::string(name) + " has " + std::to_string(element) + ", which is not odd and below 2N");
  return true;
}

bool Given::Below(const char* name, Moduli values, uint64_t least, uint64_t below) {
  for (const uint64_t value : values)
    if (value < least || value >= below) return Refuse(std::string(name) + " has " + std::to_string(value));
  return true;
}

bool Given::Workspace(int64_t words, uint64_t*& workspace) {
  auto buffer = results_.get<ffi::AnyBuffer>(next_result_++);
  if (!buffer.has_value()) return Refuse("the workspace is missing");
  const Shape shape = (*buffer)->dimensions();
  if ((*buffer)->element_type() != ffi::U64 || shape.size() != 1 || shape[0] != words)
    return Refuse("the workspace is no u64[" + std::to_string(words) + "]");
  workspace = static_cast<uint64_t*>((*buffer)->untyped_data());
  return true;
}

}  // namespace fhejax
