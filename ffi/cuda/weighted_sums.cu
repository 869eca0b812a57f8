// Sums of ciphertexts times numbers: a product of matrices. A thread makes kSums sums of one column, so that it loads each
// term once for them; the other threads of the column load the same words at about the same time, from the first cache.

#include <algorithm>

#include "cuda/batch.h"
#include "cuda/handlers.h"
#include "cuda/sums.h"

namespace fhejax {
namespace {

constexpr uint32_t kSums = 4;        // of a thread
constexpr uint32_t kGroups = 8;      // of kSums sums, in a block at most
constexpr uint32_t kLeastColumns = 32;  // a warp's

struct SumsShape {
  uint32_t n, components, terms, sums;
  uint32_t groups;  // blocks side by side for the sums of a column
};

// A tile is blockDim.x columns of one component, and blockDim.y kSums sums of them. Operand 0: the terms, operand 1: the
// numbers. From reduced words to reduced words.
__global__ void __launch_bounds__(kThreads, 2)
    WeightedSums(Grid grid, Batch<2> batch, const uint64_t* x, const uint64_t* weights, uint64_t* out, const Limb* limbs,
                 SumsShape shape) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t rest = tile.index / shape.groups, component = rest % shape.components;
  const uint32_t first = (tile.index % shape.groups * blockDim.y + threadIdx.y) * kSums;
  const uint32_t at = rest / shape.components * blockDim.x + threadIdx.x;
  if (at >= shape.n || first >= shape.sums) return;
  const uint64_t row = (uint64_t{component} * grid.limbs + tile.limb) * shape.n + at;
  const uint64_t stride = uint64_t{shape.components} * grid.limbs * shape.n;  // of terms and sums
  const uint64_t* const from = x + batch.Entry(0, tile.entry) * (shape.terms * stride) + row;
  uint64_t* const to = out + tile.entry * (shape.sums * stride) + row;
  const uint64_t* const numbers =
      weights + ((uint64_t{batch.Entry(1, tile.entry)} * shape.sums + first) * grid.limbs + tile.limb) * shape.terms;
  const uint32_t numbers_stride = grid.limbs * shape.terms, last = shape.sums - 1 - first;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using Sum = SumOf<A>;
    const typename A::Modulus q = A::ModulusOf(limb);
    typename Sum::Sum sums[kSums];
#pragma unroll
    for (uint32_t s = 0; s < kSums; ++s) sums[s] = Sum::From(0);
    for (uint32_t begin = 0; begin < shape.terms; begin += Sum::kProducts) {
      const uint32_t end = min(begin + uint32_t{Sum::kProducts}, shape.terms);
#pragma unroll 2
      for (uint32_t t = begin; t < end; ++t) {
        const typename A::Word term = A::Load(from[t * stride]);
#pragma unroll
        for (uint32_t s = 0; s < kSums; ++s)  // sums beyond the last are not stored
          Sum::Add(sums[s], term, A::Load(numbers[uint64_t{min(s, last)} * numbers_stride + t]), q);
      }
#pragma unroll
      for (uint32_t s = 0; s < kSums; ++s) Sum::Settle(sums[s], q);
    }
#pragma unroll
    for (uint32_t s = 0; s < kSums; ++s)
      if (first + s < shape.sums) to[(first + s) * stride] = Sum::Reduced(sums[s], q);
  });
}

void LaunchSums(Call& call, const handlers::WeightedSums& in) {
  const auto batch = BatchOf<2>(call, in.out.batch(), {in.x.batch(), in.weights.batch()});
  SumsShape sizes{static_cast<uint32_t>(in.values), static_cast<uint32_t>(in.components), static_cast<uint32_t>(in.terms),
                  static_cast<uint32_t>(in.sums), 1};
  const auto groups = std::min(static_cast<uint32_t>(Ceiling(in.sums, kSums)), kGroups);
  const dim3 block(std::min(std::max(kThreads / groups / kLeastColumns * kLeastColumns, kLeastColumns), sizes.n), groups);
  sizes.groups = static_cast<uint32_t>(Ceiling(in.sums, kSums * groups));
  const Grid grid{static_cast<uint32_t>(Ceiling(in.values, block.x)) * sizes.components * sizes.groups, batch.count,
                  static_cast<uint32_t>(in.limbs)};
  call.Launch(WeightedSums, grid.blocks(), block, 0, grid, batch, in.x.data, in.weights.data, in.out.data,
              LimbsOf(call, in.moduli), sizes);
}

}  // namespace

FHEJAX_CUDA_HANDLER(WeightedSums, LaunchSums);

}  // namespace fhejax
