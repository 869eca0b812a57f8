// Floating-point coefficients <-> residues, with exact integers between.

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"
#include "cpu/tables.h"

namespace fhejax {
namespace {

constexpr int64_t kChunk = 256;  // coefficients that one task works on, limb by limb

// |x| = mantissa 2^exponent. Infinities and NaN are read as if they were numbers.
struct Float {
  uint64_t mantissa;
  int exponent;
  bool negative;
};

inline Float Split(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int field = static_cast<int>(bits >> 52 & 0x7FF);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {field ? fraction | uint64_t{1} << 52 : fraction, std::max(field, 1) - 1075, bits >> 63 != 0};
}

// The largest exponent of a product is 2 (2047 - 1075).
constexpr int kPowers = 1945;

// 2^e mod q for e < kPowers.
const std::vector<uint64_t>& PowersOfTwo(uint64_t q) {
  static auto& tables = *new Cache<uint64_t, std::vector<uint64_t>>;
  return tables.Get(q, [=] {
    std::vector<uint64_t> powers(kPowers, 1);
    for (int e = 1; e < kPowers; ++e) powers[e] = Reduce(2 * powers[e - 1], q);
    return powers;
  });
}

// round(|a scale|) = magnitude 2^exponent, ties away from zero.
struct Rounded {
  Wide magnitude;
  int exponent;
  bool negative;
};

Rounded RoundProduct(double a, const Float& scale) {
  const Float x = Split(a);
  const unsigned __int128 product = static_cast<unsigned __int128>(x.mantissa) * scale.mantissa;  // < 2^106
  const int exponent = x.exponent + scale.exponent;
  const int down = std::min(std::max(-exponent, 0), 107);  // no branch on a value: it is a message
  const unsigned __int128 magnitude = ((product << 1 >> down) + 1) >> 1;
  return {{static_cast<uint64_t>(magnitude), static_cast<uint64_t>(magnitude >> 64)},
          std::max(exponent, 0),
          x.negative};
}

// a: f64[*batch, N] -> u64[*batch, limbs, N].
ffi::Error RoundToResiduesHandler(ffi::ThreadPool pool, ffi::Buffer<ffi::F64> a, Output out, Moduli moduli,
                                  double scale) {
  const Dimensions shape = ShapeOf(a);
  const auto limbs = static_cast<int64_t>(moduli.size());
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 1), chunks = (n + kChunk - 1) / kChunk;
  const Float factor = Split(scale);
  ParallelFor(pool, batch * chunks, [&](int64_t task) {
    const int64_t entry = task / chunks, first = task % chunks * kChunk, count = std::min(kChunk, n - first);
    std::array<Rounded, kChunk> integers;
    bool shifted = false;
    for (int64_t i = 0; i < count; ++i) {
      integers[i] = RoundProduct(a.typed_data()[entry * n + first + i], factor);
      shifted |= integers[i].exponent > 0;  // only values beyond 2^104 take the slower path, and show it
    }
    for (int64_t limb = 0; limb < limbs; ++limb) {
      const Modulus q = ModulusFor(moduli.begin()[limb]);
      const uint64_t* const powers = shifted ? PowersOfTwo(q.value).data() : nullptr;
      uint64_t* const row = out->typed_data() + (entry * limbs + limb) * n + first;
      for (int64_t i = 0; i < count; ++i) {
        uint64_t r = ReduceWide(integers[i].magnitude, q);
        if (shifted) r = Multiply(r, powers[integers[i].exponent], q);
        const uint64_t mask = -static_cast<uint64_t>(integers[i].negative);
        row[i] = (r & ~mask) | (Reduce(q.value - r, q.value) & mask);
      }
    }
  });
  return ffi::Error::Success();
}

// What carries residues to mixed-radix digits: x = v_0 + q_0 (v_1 + q_1 (v_2 + ...)), 0 <= v_i < q_i.
struct MixedRadixTable {
  std::vector<Modulus> moduli;
  std::vector<std::vector<Factor>> inverses;   // [i][j], j < i: q_j^-1 mod q_i
  std::vector<std::vector<uint64_t>> offsets;  // [i][j], j < i: the least multiple of q_i from q_j on
};

const MixedRadixTable& MixedRadixTableFor(const std::vector<uint64_t>& moduli) {
  static auto& tables = *new Cache<std::vector<uint64_t>, MixedRadixTable>;
  return tables.Get(moduli, [&] {
    MixedRadixTable table;
    for (size_t i = 0; i < moduli.size(); ++i) {
      const uint64_t q = moduli[i];
      table.moduli.push_back(MakeModulus(q));
      table.inverses.emplace_back();
      table.offsets.emplace_back();
      for (size_t j = 0; j < i; ++j) {
        table.inverses[i].push_back(MakeFactor(Inverse(moduli[j], q), q));
        table.offsets[i].push_back((moduli[j] + q - 1) / q * q);
      }
    }
    return table;
  });
}

// digits[i][*] for the residues x[i * stride + *] (Garner).
void MixedRadixDigits(const uint64_t* x, int64_t stride, int64_t count, const MixedRadixTable& table, uint64_t* digits) {
  for (size_t i = 0; i < table.moduli.size(); ++i) {
    const uint64_t q = table.moduli[i].value;
    uint64_t* const row = digits + i * kChunk;
    std::copy_n(x + i * stride, count, row);
    for (size_t j = 0; j < i; ++j) {
      const uint64_t* const lower = digits + j * kChunk;
      const uint64_t offset = table.offsets[i][j];
      const Factor inverse = table.inverses[i][j];
      // row < 2q and offset < q + q_j: the sum stays below 2^63.
      for (int64_t k = 0; k < count; ++k) row[k] = MultiplyLazy(row[k] + offset - lower[k], inverse, q);
    }
    for (int64_t k = 0; k < count; ++k) row[k] = Reduce(row[k], q);
  }
}

// The centred integer with these digits. Negative numbers by their complement: Q - x has digits q_i - 1 - v_i, plus 1.
// No branch: the digits are those of a decrypted message.
double CentredValue(const uint64_t* digits, const MixedRadixTable& table, const double* places) {
  const size_t limbs = table.moduli.size();
  uint64_t negative = 0;
  for (size_t i = 0; i < limbs; ++i) {  // compared with (Q - 1) / 2, whose digits are (q_i - 1) / 2, lowest first
    const uint64_t v = digits[i * kChunk], half = table.moduli[i].value / 2;
    negative = static_cast<uint64_t>(v > half) | (static_cast<uint64_t>(v == half) & negative);
  }
  double total = 0;
  for (size_t i = 0; i < limbs; ++i) {
    const uint64_t v = digits[i * kChunk], complement = table.moduli[i].value - (i > 0) - v;
    const uint64_t digit = (v & (negative - 1)) | (complement & -negative);
    // A place may be infinite, and nothing of it is nothing.
    const double term = static_cast<double>(static_cast<int64_t>(digit)) * places[i];
    uint64_t bits;
    std::memcpy(&bits, &term, sizeof bits);
    bits &= -static_cast<uint64_t>(digit != 0);
    double masked;
    std::memcpy(&masked, &bits, sizeof masked);
    total += masked;
  }
  return total * (1.0 - 2.0 * static_cast<double>(negative));
}

// x: u64[*batch, limbs, N] -> f64[*batch, N]. places: the product of the moduli below each, as doubles.
ffi::Error ResiduesToFloatHandler(ffi::ThreadPool pool, Input x, ffi::ResultBuffer<ffi::F64> out, Moduli moduli,
                                  ffi::Span<const double> places) {
  const Dimensions shape = ShapeOf(x);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 2 || shape[shape.size() - 2] != limbs || places.size() != moduli.size())
    return ffi::Error::InvalidArgument("fhejax_residues_to_float: the limb axis does not match the moduli");
  const int64_t n = shape.back(), batch = Product(shape, 0, shape.size() - 2), chunks = (n + kChunk - 1) / kChunk;
  const MixedRadixTable& table = MixedRadixTableFor({moduli.begin(), moduli.end()});
  ParallelFor(pool, batch * chunks, [&](int64_t task) {
    const int64_t entry = task / chunks, first = task % chunks * kChunk, count = std::min(kChunk, n - first);
    uint64_t* const digits = TaskScratch(limbs * kChunk);
    MixedRadixDigits(x.typed_data() + entry * limbs * n + first, n, count, table, digits);
    for (int64_t k = 0; k < count; ++k)
      out->typed_data()[entry * n + first + k] = CentredValue(digits + k, table, places.begin());
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxRoundToResidues, RoundToResiduesHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F64>>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<double>("scale"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxResiduesToFloat, ResiduesToFloatHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::F64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<ffi::Span<const double>>("places"));

}  // namespace fhejax
