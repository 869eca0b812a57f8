// A sum of products of ciphertexts, of ciphertexts times numbers, and of a constant: each operand is read once.
//
// A launch takes kItems products and terms, which are parameters of its kernel; more are added by further launches.

#include <algorithm>
#include <vector>

#include "cuda/batch.h"
#include "cuda/handlers.h"
#include "cuda/sums.h"

namespace fhejax {
namespace {

constexpr int kItems = 8;
constexpr int kComponents = 3;

using ItemBatch = Batch<2 * kItems + 1>;  // a and b of each item, and the weights of the constant

// A product of the ciphertexts a and b, or a times numbers, b: u64[.., limbs]. Ciphertexts may have more limbs than are read.
struct Item {
  const uint64_t *a, *b;
  uint32_t a_limbs, b_limbs;  // b_limbs of numbers: of an entry, all numbers together
};

struct Items {
  Item item[kItems];
  uint32_t products, count;  // of them, and with the terms behind them
  uint32_t term_components;
  const uint64_t* constant;  // u64[.., limbs] of which an entry has constant_limbs; or null
  uint32_t constant_limbs;
};

// The words of one place of a row.
struct Place {
  const uint64_t* data;
  uint64_t stride;  // between components

  __device__ __forceinline__ uint64_t operator[](uint32_t component) const { return data[component * stride]; }
};

// A tile is blockDim.x words of a row, all components. To the sum so far, if `more`, or from nothing; words are reduced.
__global__ void __launch_bounds__(kThreads, 3)
    Combine(const __grid_constant__ Grid grid, const __grid_constant__ ItemBatch batch, const __grid_constant__ Items items,
            uint64_t* out, const Limb* limbs, uint32_t n, uint32_t components, bool more) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const uint64_t stride = uint64_t{grid.limbs} * n;
  uint64_t* const to = out + tile.entry * (components * stride) + uint64_t{tile.limb} * n + at;
  const auto place = [&](const uint64_t* data, uint32_t have, uint32_t its_limbs, int operand) {
    const uint64_t rows = uint64_t{batch.Entry(operand, tile.entry)} * have * its_limbs + tile.limb;
    return Place{data + rows * n + at, uint64_t{its_limbs} * n};
  };
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using Sum = SumOf<A>;
    const typename A::Modulus q = A::ModulusOf(limb);
    typename Sum::Sum sums[kComponents];
#pragma unroll
    for (uint32_t c = 0; c < kComponents; ++c)
      sums[c] = Sum::From(more && c < components ? A::Load(to[c * stride]) : typename A::Word{0});
    if (items.constant)
      sums[0] = Sum::From(
          A::Load(items.constant[uint64_t{batch.Entry(2 * kItems, tile.entry)} * items.constant_limbs + tile.limb]));
    uint32_t added = 0;  // products in the second sum, which has most
    for (uint32_t i = 0; i < items.count; ++i) {
      const Item& item = items.item[i];
      if (i < items.products) {
        const Place a = place(item.a, 2, item.a_limbs, 2 * i), b = place(item.b, 2, item.b_limbs, 2 * i + 1);
        const typename A::Word a0 = A::Load(a[0]), a1 = A::Load(a[1]), b0 = A::Load(b[0]), b1 = A::Load(b[1]);
        Sum::Add(sums[0], a0, b0, q);
        Sum::Add(sums[1], a0, b1, q);
        Sum::Add(sums[1], a1, b0, q);
        Sum::Add(sums[2], a1, b1, q);
      } else {
        const Place a = place(item.a, items.term_components, item.a_limbs, 2 * i);
        const typename A::Word number =
            A::Load(item.b[uint64_t{batch.Entry(2 * i + 1, tile.entry)} * item.b_limbs + tile.limb]);
#pragma unroll
        for (uint32_t c = 0; c < kComponents; ++c)
          if (c < items.term_components) Sum::Add(sums[c], A::Load(a[c]), number, q);
      }
      added += 2;
      if (added + 2 > Sum::kProducts) {
#pragma unroll
        for (uint32_t c = 0; c < kComponents; ++c) Sum::Settle(sums[c], q);
        added = 0;
      }
    }
#pragma unroll
    for (uint32_t c = 0; c < kComponents; ++c)
      if (c < components) to[c * stride] = Sum::Reduced(sums[c], q);
  });
}

struct Ciphertext {
  const uint64_t* data;
  Dimensions shape;

  uint32_t limbs() const { return static_cast<uint32_t>(shape[shape.size() - 2]); }
  int64_t components() const { return shape[shape.size() - 3]; }
};

struct Given {
  std::vector<Ciphertext> ciphertexts;  // x.., y.., terms..
  size_t products;
  const uint64_t* weights;
  Dimensions weights_shape;

  size_t terms() const { return ciphertexts.size() - 2 * products; }
  size_t numbers() const { return static_cast<size_t>(weights_shape[weights_shape.size() - 2]); }
};

ffi::Error Take(ffi::RemainingArgs operands, const Dimensions& result, int64_t limbs, int64_t products, Given& given) {
  const auto invalid = [] { return ffi::Error::InvalidArgument("fhejax_combination: operands do not fit"); };
  if (operands.size() < 2 || result.size() < 3 || products < 0 || static_cast<size_t>(2 * products) > operands.size() - 1)
    return invalid();
  const int64_t components = result[result.size() - 3];
  if (components < (products ? 3 : 2) || components > kComponents || result[result.size() - 2] != limbs) return invalid();
  given.products = static_cast<size_t>(products);
  for (size_t i = 0; i + 1 < operands.size(); ++i) {
    auto buffer = operands.get<Input>(i);
    if (buffer.has_error()) return buffer.error();
    given.ciphertexts.push_back({buffer->typed_data(), ShapeOf(*buffer)});
    const Ciphertext& last = given.ciphertexts.back();
    if (last.shape.size() != result.size() || last.shape.back() != result.back() || last.limbs() < limbs ||
        (i < 2 * given.products ? last.components() != 2
                                : last.components() > components ||
                                      last.components() != given.ciphertexts[2 * given.products].components()))
      return invalid();
  }
  auto weights = operands.get<Input>(operands.size() - 1);
  if (weights.has_error()) return weights.error();
  given.weights = weights->typed_data();
  given.weights_shape = ShapeOf(*weights);
  if (given.weights_shape.size() + 1 != result.size() || given.weights_shape.back() != limbs) return invalid();
  if (given.numbers() != given.terms() && given.numbers() != given.terms() + 1) return invalid();
  return ffi::Error::Success();
}

// Items first.. of the products and then the terms, at most kItems of them, with the constant among the first.
struct Chunk {
  Items items{};
  std::array<OperandShape, 2 * kItems + 1> shapes;

  Chunk(const Given& given, const Dimensions& result, size_t first) {
    Dimensions one(result.size(), 1);  // operands that are not there
    shapes.fill({one, 3});
    const auto limbs = static_cast<uint32_t>(given.weights_shape.back());
    const auto entry_limbs = static_cast<uint32_t>(given.numbers()) * limbs;
    const OperandShape weights{given.weights_shape, 2};
    const size_t last = std::min(first + kItems, given.products + given.terms());
    for (size_t i = first; i < last; ++i) {
      const bool product = i < given.products;
      const Ciphertext& a = given.ciphertexts[product ? i : i + given.products];
      shapes[2 * items.count] = {a.shape, 3};
      if (product) {
        const Ciphertext& b = given.ciphertexts[i + given.products];
        shapes[2 * items.count + 1] = {b.shape, 3};
        items.item[items.count] = {a.data, b.data, a.limbs(), b.limbs()};
        ++items.products;
      } else {
        shapes[2 * items.count + 1] = weights;
        items.item[items.count] = {a.data, given.weights + (i - given.products) * limbs, a.limbs(), entry_limbs};
        items.term_components = static_cast<uint32_t>(a.components());
      }
      ++items.count;
    }
    if (first > 0 || given.numbers() == given.terms()) return;
    shapes[2 * kItems] = weights;
    items.constant = given.weights + given.terms() * limbs;
    items.constant_limbs = entry_limbs;
  }
};

// operands: x.., y.., terms.., u64[*batch, components, limbs, N] each, and u64[*batch, numbers, limbs] ->
// u64[*batch, components, limbs, N].
ffi::Error CombinationHandler(Call& call, ffi::RemainingArgs operands, Output out, Moduli moduli, int64_t products) {
  const Dimensions result = ShapeOf(*out);
  Given given{};
  if (auto error = Take(operands, result, static_cast<int64_t>(moduli.size()), products, given); error.failure()) return error;
  const auto n = static_cast<uint32_t>(result.back()), components = static_cast<uint32_t>(result[result.size() - 3]);
  const uint32_t threads = std::min(n, kThreads);
  for (size_t first = 0; first < given.products + given.terms(); first += kItems) {
    const Chunk chunk(given, result, first);
    const auto batch = BroadcastOf<2 * kItems + 1>({result, 3}, chunk.shapes);
    if (!batch) return ffi::Error::InvalidArgument("fhejax_combination: batch axes do not broadcast");
    const Grid grid{(n + threads - 1) / threads, batch->count, static_cast<uint32_t>(moduli.size())};
    call.Launch(Combine, grid.blocks(), dim3(threads), 0, grid, *batch, chunk.items, out->typed_data(), LimbsOf(call, moduli),
                n, components, first > 0);
  }
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxCombination, CombinationHandler,
                    .RemainingArgs().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli").Attr<int64_t>("products"));

}  // namespace fhejax
