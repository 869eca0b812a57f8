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

// x.., y.., terms..
std::vector<Operand> OperandsOf(const handlers::Combination& in) {
  std::vector<Operand> all;
  for (const auto* arrays : {&in.xs, &in.ys, &in.terms})
    for (const auto& each : *arrays)
      all.push_back({each.data, each.axis(0), each.axis(1), EntriesOf(in.out.batch(), each)});
  return all;
}

// The rows that the products of one component are made of; out = sum of a b.
struct Component {
  Rows a, b;

  void Add(const uint64_t* x, const uint64_t* y) {
    a.push_back(x);
    b.push_back(y);
  }
};

void Combine(ffi::ThreadPool& pool, const handlers::Combination& in) {
  const std::vector<Operand> operands = OperandsOf(in);
  const auto weights_entry = EntriesOf(in.out.batch(), in.weights);
  PrepareResult(in.out);
  const int64_t n = in.values, limbs = in.limbs, products = in.products, terms = in.term_count, number_count = in.numbers;
  const int64_t components = in.out.axis(0), count = 3 * static_cast<int64_t>(operands.size());
  int64_t block = kLeast;
  while (2 * block * count <= kWords) block *= 2;
  block = std::min(block, n);
  const int64_t span = kBlocks * block, spans = (n + span - 1) / span;
  ParallelFor(pool, in.batch * limbs * spans, [&](int64_t task) {
    const int64_t entry = task / (limbs * spans), limb = task / spans % limbs, first = task % spans * span;
    const Modulus& q = ModulusFor(in.moduli[limb]);
    // Rows lie a power of two apart, and would all fall into the same few lines of the cache.
    const int64_t pitch = block + kLine;
    uint64_t* const copies = TaskScratch((count + number_count + 1) * pitch);
    uint64_t* const numbers = copies + count * pitch;
    uint64_t* const ones = numbers + number_count * pitch;
    const auto row = [&](int64_t i, int64_t component) { return copies + (3 * i + component) * pitch; };
    const uint64_t* const weights = in.weights.data + weights_entry[entry] * number_count * limbs + limb;
    for (int64_t i = 0; i < number_count; ++i) std::fill_n(numbers + i * pitch, block, weights[i * limbs]);
    std::fill_n(ones, block, 1);
    Component sums[3];
    for (int64_t x = 0, y = products; x < products; ++x, ++y) {
      sums[0].Add(row(x, 0), row(y, 0));
      sums[1].Add(row(x, 0), row(y, 1));
      sums[1].Add(row(x, 1), row(y, 0));
      sums[2].Add(row(x, 1), row(y, 1));
    }
    for (int64_t i = 0; i < terms; ++i)
      for (int64_t component = 0; component < operands[2 * products + i].components; ++component)
        sums[component].Add(row(2 * products + i, component), numbers + i * pitch);
    if (number_count > terms) sums[0].Add(ones, numbers + terms * pitch);
    for (int64_t offset = first; offset < std::min(first + span, n); offset += block) {
      const int64_t values = std::min(block, n - offset);
      for (size_t i = 0; i < operands.size(); ++i)
        for (int64_t component = 0; component < operands[i].components; ++component)
          std::copy_n(operands[i].Row(entry, component, limb, n) + offset, values, row(i, component));
      for (int64_t component = 0; component < components; ++component)
        ActiveKernels().inner_product(sums[component].a.data(), sums[component].b.data(),
                                      static_cast<int64_t>(sums[component].a.size()),
                                      in.out.data + ((components * entry + component) * limbs + limb) * n + offset,
                                      values, q);
    }
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(Combination, Combine);

}  // namespace fhejax
