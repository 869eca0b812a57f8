#include "cuda/masks.h"

#include <algorithm>

#include "common/chacha20.h"
#include "cuda/batch.h"

namespace fhejax {
namespace {

constexpr uint32_t kUniformTag = 2;      // as fhejax/primitives/sampling.py has it
constexpr uint32_t kNumbersOfBlock = 4;  // 128 bits each

// A tile is blockDim.x blocks of ChaCha20, each kNumbersOfBlock words of a row; entries are digits of seeds.
__global__ void __launch_bounds__(kThreads) DrawMasks(Grid grid, Masks masks, const Limb* limbs) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t counter = tile.index * blockDim.x + threadIdx.x, first = counter * kNumbersOfBlock;
  if (first >= masks.n) return;
  const uint32_t limb = tile.limb < masks.moduli ? masks.special + tile.limb : tile.limb - masks.moduli;
  const uint32_t nonce[3] = {kUniformTag, tile.entry % masks.digits, limb};
  uint32_t key[8], words[16];
#pragma unroll
  for (int i = 0; i < 8; ++i) key[i] = masks.seeds[uint64_t{tile.entry / masks.digits} * 8 + i];
  ChaCha20Block(key, counter, nonce, words);
  const Modulus& q = limbs[tile.limb].modulus;
  uint64_t* const to = masks.to + (uint64_t{tile.entry} * grid.limbs + tile.limb) * masks.n + first;
#pragma unroll
  for (uint32_t i = 0; i < kNumbersOfBlock; ++i) {
    const uint64_t low = words[4 * i] | uint64_t{words[4 * i + 1]} << 32;
    const uint64_t high = words[4 * i + 2] | uint64_t{words[4 * i + 3]} << 32;
    if (first + i < masks.n) to[i] = ReduceWide({low, high}, q);
  }
}

}  // namespace

void LaunchDrawMasks(Call& call, const Masks& masks, const Limb* limbs) {
  const uint32_t blocks = (masks.n + kNumbersOfBlock - 1) / kNumbersOfBlock, threads = std::min(kThreads, blocks);
  const Grid grid{(blocks + threads - 1) / threads, masks.count * masks.digits, masks.moduli + masks.special};
  call.Launch(DrawMasks, grid.blocks(), dim3(threads), 0, grid, masks, limbs);
}

}  // namespace fhejax
