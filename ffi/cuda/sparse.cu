// Sparse ternary polynomials: a shuffle, one thread a polynomial. Its branches and memory accesses depend on the secret,
// and it is slow: it serves key generation only, as fhejax/primitives/sampling.py says.

#include <algorithm>

#include "cuda/handlers.h"
#include "cuda/sampling.h"

namespace fhejax {
namespace {

// What the shuffles of all entries work in.
struct Shuffles {
  uint64_t* steps;   // [entries, weight]: the entry that step j exchanges entry j with, and in the top bit the sign
  uint32_t* places;  // [entries, N]
  int16_t* values;   // [entries, N]
  uint32_t weight, n;
};

// u mod left for u < 2^127 and left < 2^32, by halves: no product overflows.
FHEJAX_DEVICE uint64_t Remainder(Wide u, uint64_t left) {
  uint64_t word = (uint64_t{1} << 32) % left;
  word = word * word % left;  // 2^64
  return (u.high % left * word % left + u.low % left) % left;
}

// A tile is blockDim.x places, and draws four steps a thread.
__global__ void __launch_bounds__(kThreads) Prepare(Grid grid, Streams streams, Shuffles shuffles) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x, n = shuffles.n;
  if (at >= n) return;
  shuffles.places[uint64_t{tile.entry} * n + at] = at;
  shuffles.values[uint64_t{tile.entry} * n + at] = 0;
  if (4 * at >= shuffles.weight) return;
  uint32_t words[kBlockWords];
  ReadBlock(streams.SeedOf(tile.entry), at, kSparse, streams.ObjectOf(tile.entry), 0, words);
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k) {
    const uint32_t j = 4 * at + k;
    const Wide number = WideNumber(words + 4 * k);
    const uint64_t sign = number.high >> 63 << 63;
    if (j < shuffles.weight)
      shuffles.steps[uint64_t{tile.entry} * shuffles.weight + j] = (j + Remainder(WithoutSign(number), n - j)) | sign;
  }
}

__global__ void __launch_bounds__(kThreads) Shuffle(Shuffles shuffles, uint32_t entries) {
  const uint32_t entry = blockIdx.x * blockDim.x + threadIdx.x;
  if (entry >= entries) return;
  const uint64_t* const steps = shuffles.steps + uint64_t{entry} * shuffles.weight;
  uint32_t* const places = shuffles.places + uint64_t{entry} * shuffles.n;
  int16_t* const values = shuffles.values + uint64_t{entry} * shuffles.n;
  for (uint32_t j = 0; j < shuffles.weight; ++j) {
    const auto other = static_cast<uint32_t>(steps[j]);
    const uint32_t chosen = places[other];
    places[other] = places[j];  // nobody reads entry j again
    values[chosen] = steps[j] >> 63 ? -1 : 1;
  }
}

// int16[entries, N] to rows, reduced.
__global__ void __launch_bounds__(kThreads)
    SpreadValues(Grid grid, const int16_t* values, uint64_t* out, const Limb* limbs, uint32_t n) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= n) return;
  out[(uint64_t{tile.entry} * grid.limbs + tile.limb) * n + at] =
      ResidueOfSmall(values[uint64_t{tile.entry} * n + at], limbs[tile.limb].modulus.value);
}

void LaunchShuffles(Call& call, const handlers::SampleSparseTernary& in) {
  const Streams streams{in.seeds.data, BatchOf<1>(call, in.out.batch(), {in.seeds.batch()}), static_cast<uint32_t>(in.count)};
  const auto n = static_cast<uint32_t>(in.values), limbs = static_cast<uint32_t>(in.limbs);
  const uint32_t threads = std::min(n, kThreads), tiles = (n + threads - 1) / threads, entries = streams.entries();
  const Shuffles shuffles{in.workspace.steps, reinterpret_cast<uint32_t*>(in.workspace.positions),
                          reinterpret_cast<int16_t*>(in.workspace.signs), static_cast<uint32_t>(in.weight), n};
  const Grid grid{tiles, entries, 1}, all{tiles, entries, limbs};
  constexpr uint32_t kShuffling = 32;
  call.Launch(Prepare, grid.blocks(), dim3(threads), 0, grid, streams, shuffles);
  call.Launch(Shuffle, (entries + kShuffling - 1) / kShuffling, dim3(kShuffling), 0, shuffles, entries);
  call.Launch(SpreadValues, all.blocks(), dim3(threads), 0, all, shuffles.values, in.out.data, LimbsOf(call, in.moduli), n);
}

}  // namespace

FHEJAX_CUDA_HANDLER(SampleSparseTernary, LaunchShuffles);

}  // namespace fhejax
