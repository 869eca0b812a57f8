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

// Items first.. of the products and then the terms, at most kItems of them, with the constant among the first.
struct Chunk {
  Items items{};
  std::array<Shape, 2 * kItems + 1> batches;

  // `one`: the batch axes of operands that are not there.
  Chunk(const handlers::Combination& in, Shape one, int64_t first) {
    batches.fill(one);
    const auto entry_limbs = static_cast<uint32_t>(in.numbers * in.limbs);
    const int64_t last = std::min(first + kItems, in.products + in.term_count);
    for (int64_t i = first; i < last; ++i) {
      const bool product = i < in.products;
      const auto& a = product ? in.xs[i] : in.terms[i - in.products];
      const auto& b = product ? in.ys[i] : in.weights;
      const auto a_limbs = static_cast<uint32_t>(a.axis(1));
      batches[2 * items.count] = a.batch();
      batches[2 * items.count + 1] = b.batch();
      if (product) {
        items.item[items.count] = {a.data, b.data, a_limbs, static_cast<uint32_t>(b.axis(1))};
        ++items.products;
      } else {
        items.item[items.count] = {a.data, b.data + (i - in.products) * in.limbs, a_limbs, entry_limbs};
        items.term_components = static_cast<uint32_t>(in.components);
      }
      ++items.count;
    }
    if (first > 0 || in.numbers == in.term_count) return;
    batches[2 * kItems] = in.weights.batch();
    items.constant = in.weights.data + in.term_count * in.limbs;
    items.constant_limbs = entry_limbs;
  }
};

void LaunchCombination(Call& call, const handlers::Combination& in) {
  const auto n = static_cast<uint32_t>(in.values), components = static_cast<uint32_t>(in.out.axis(0));
  const uint32_t threads = std::min(n, kThreads);
  const std::vector<int64_t> one(in.out.batch().size(), 1);
  for (int64_t first = 0; first < in.products + in.term_count; first += kItems) {
    const Chunk chunk(in, one, first);
    const auto batch = BatchOf<2 * kItems + 1>(call, in.out.batch(), chunk.batches);
    const Grid grid{(n + threads - 1) / threads, batch.count, static_cast<uint32_t>(in.limbs)};
    call.Launch(Combine, grid.blocks(), dim3(threads), 0, grid, batch, chunk.items, in.out.data, LimbsOf(call, in.moduli), n,
                components, first > 0);
  }
}

}  // namespace

FHEJAX_CUDA_HANDLER(Combination, LaunchCombination);

}  // namespace fhejax
