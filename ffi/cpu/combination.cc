// A sum of products of ciphertexts, of ciphertexts times numbers, and of a constant: each operand is read once.

#include <algorithm>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {
namespace {

constexpr int64_t kLine = 8;         // words
constexpr int64_t kWords = 1 << 15;  // of a block of all operands: a quarter of a common second-level cache
constexpr int64_t kLeast = 64;       // values of a row at a time, also for very many operands
constexpr int64_t kBlocks = 8;       // that a task takes: it writes the numbers into rows once for all

using Rows = std::vector<const uint64_t*>;

// A ciphertext, of which only the first limbs are read.
struct Operand {
  const uint64_t* data;
  int64_t components, limbs;
  std::vector<int64_t> entry;  // for each entry of the batch

  const uint64_t* Row(int64_t e, int64_t component, int64_t limb, int64_t n) const {
    return data + ((components * entry[e] + component) * limbs + limb) * n;
  }
};

struct Operands {
  std::vector<Operand> all;  // x.., y.., terms..
  int64_t products, numbers;
  const uint64_t* weights;
  std::vector<int64_t> weights_entry;

  int64_t terms() const { return static_cast<int64_t>(all.size()) - 2 * products; }
};

ffi::Error TakeOperands(ffi::RemainingArgs given, const Dimensions& result, int64_t limbs, int64_t products,
                        Operands& operands) {
  const auto invalid = [] { return ffi::Error::InvalidArgument("fhejax_combination: operands do not fit"); };
  if (given.size() < 2 || result.size() < 3 || products < 0 || static_cast<size_t>(2 * products) > given.size() - 1)
    return invalid();
  const Batch batch = BatchOf(result, 3);
  const auto count = static_cast<int64_t>(given.size()) - 1, components = result[result.size() - 3];
  for (int64_t i = 0; i < count; ++i) {
    auto buffer = given.get<Input>(i);
    if (buffer.has_error()) return buffer.error();
    const Dimensions shape = ShapeOf(*buffer);
    if (shape.size() != result.size() || shape.back() != result.back()) return invalid();
    const int64_t have = shape[shape.size() - 3], rows = shape[shape.size() - 2];
    if (rows < limbs || (i < 2 * products ? have != 2 : have > components)) return invalid();
    operands.all.push_back({buffer->typed_data(), have, rows, batch.Entries(shape, 3)});
    if (batch.count() && operands.all.back().entry.empty()) return invalid();
  }
  auto weights = given.get<Input>(count);
  if (weights.has_error()) return weights.error();
  const Dimensions shape = ShapeOf(*weights);
  if (shape.size() + 1 != result.size() || shape.back() != limbs) return invalid();
  operands.products = products;
  operands.numbers = shape[shape.size() - 2];
  operands.weights = weights->typed_data();
  operands.weights_entry = batch.Entries(shape, 2);
  const int64_t more = operands.numbers - operands.terms();
  if (more < 0 || more > 1 || components < (products ? 3 : 2) || components > 3 ||
      result[result.size() - 2] != limbs || (batch.count() && operands.weights_entry.empty()))
    return invalid();
  return ffi::Error::Success();
}

// The rows that the products of one component are made of; out = sum of a b.
struct Component {
  Rows a, b;

  void Add(const uint64_t* x, const uint64_t* y) {
    a.push_back(x);
    b.push_back(y);
  }
};

// operands: x.., y.., terms.., u64[*batch, 2, limbs, N] each, and u64[*batch, numbers, limbs] ->
// u64[*batch, components, limbs, N].
ffi::Error CombinationHandler(ffi::ThreadPool pool, ffi::RemainingArgs given, Output out, Moduli moduli,
                              int64_t products) {
  const Dimensions result = ShapeOf(*out);
  const auto limbs = static_cast<int64_t>(moduli.size());
  Operands operands;
  if (auto error = TakeOperands(given, result, limbs, products, operands); error.failure()) return error;
  PrepareResult(out);
  const int64_t n = result.back(), components = result[result.size() - 3], count = 3 * operands.all.size();
  int64_t block = kLeast;
  while (2 * block * count <= kWords) block *= 2;
  block = std::min(block, n);
  const int64_t span = kBlocks * block, spans = (n + span - 1) / span;
  ParallelFor(pool, BatchOf(result, 3).count() * limbs * spans, [&](int64_t task) {
    const int64_t entry = task / (limbs * spans), limb = task / spans % limbs, first = task % spans * span;
    const Modulus& q = ModulusFor(moduli.begin()[limb]);
    // Rows lie a power of two apart, and would all fall into the same few lines of the cache.
    const int64_t pitch = block + kLine;
    uint64_t* const copies = TaskScratch((count + operands.numbers + 1) * pitch);
    uint64_t* const numbers = copies + count * pitch;
    uint64_t* const ones = numbers + operands.numbers * pitch;
    const auto row = [&](int64_t i, int64_t component) { return copies + (3 * i + component) * pitch; };
    const uint64_t* const weights = operands.weights + operands.weights_entry[entry] * operands.numbers * limbs + limb;
    for (int64_t i = 0; i < operands.numbers; ++i) std::fill_n(numbers + i * pitch, block, weights[i * limbs]);
    std::fill_n(ones, block, 1);
    Component sums[3];
    for (int64_t x = 0, y = products; x < products; ++x, ++y) {
      sums[0].Add(row(x, 0), row(y, 0));
      sums[1].Add(row(x, 0), row(y, 1));
      sums[1].Add(row(x, 1), row(y, 0));
      sums[2].Add(row(x, 1), row(y, 1));
    }
    for (int64_t i = 0; i < operands.terms(); ++i)
      for (int64_t component = 0; component < operands.all[2 * products + i].components; ++component)
        sums[component].Add(row(2 * products + i, component), numbers + i * pitch);
    if (operands.numbers > operands.terms()) sums[0].Add(ones, numbers + operands.terms() * pitch);
    for (int64_t offset = first; offset < std::min(first + span, n); offset += block) {
      const int64_t values = std::min(block, n - offset);
      for (size_t i = 0; i < operands.all.size(); ++i)
        for (int64_t component = 0; component < operands.all[i].components; ++component)
          std::copy_n(operands.all[i].Row(entry, component, limb, n) + offset, values, row(i, component));
      for (int64_t component = 0; component < components; ++component)
        ActiveKernels().inner_product(sums[component].a.data(), sums[component].b.data(),
                                      static_cast<int64_t>(sums[component].a.size()),
                                      out->typed_data() + ((components * entry + component) * limbs + limb) * n + offset,
                                      values, q);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxCombination, CombinationHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .RemainingArgs()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<int64_t>("products"));

}  // namespace fhejax
