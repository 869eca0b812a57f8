// Random residues from seeds, and blocks of the stream cipher.

#include "cuda/sampling.h"

#include <algorithm>

#include "cuda/handlers.h"

namespace fhejax {
namespace {

constexpr uint32_t kDrawing = 64;  // threads of a block that draws: small, for many blocks of few polynomials

// Draws of kEach values from a block of the stream, -1..1 or below 2^15 in absolute value.
struct Ternary {
  static constexpr uint32_t kEach = 8;
  static constexpr Tag kTag = kTernary;

  __device__ __forceinline__ void Draw(const uint32_t (&words)[kBlockWords], int16_t (&values)[kEach]) const {
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k) values[k] = TernaryOf(words + 2 * k);
  }
};

struct Gaussian {
  static constexpr uint32_t kEach = 4;
  static constexpr Tag kTag = kGaussian;
  Thresholds thresholds;

  __device__ __forceinline__ void Draw(const uint32_t (&words)[kBlockWords], int16_t (&values)[kEach]) const {
    uint32_t below[kEach] = {};
    for (uint32_t t = 0; t < thresholds.count; ++t) {
      const Wide threshold = {thresholds.words[2 * t + 1], thresholds.words[2 * t]};
#pragma unroll
      for (uint32_t k = 0; k < kEach; ++k)
        below[k] += static_cast<uint32_t>(IsBelow(WithoutSign(WideNumber(words + 4 * k)), threshold));
    }
#pragma unroll
    for (uint32_t k = 0; k < kEach; ++k)
      values[k] = static_cast<int16_t>(WithSignOf(static_cast<int64_t>(thresholds.count - below[k]), WideNumber(words + 4 * k)));
  }
};

struct SmallIntegers {
  int16_t* to;

  __device__ __forceinline__ void Store(uint32_t entry, uint32_t n, uint32_t at, int16_t value) const {
    to[uint64_t{entry} * n + at] = value;
  }
};

struct Residues {
  ResidueRows rows;

  __device__ __forceinline__ void Store(uint32_t entry, uint32_t n, uint32_t at, int16_t value) const {
    uint64_t* const to = rows.to + entry * rows.stride + at;
    for (uint32_t limb = 0; limb < rows.count; ++limb)
      to[uint64_t{limb} * n] = ResidueOfSmall(value, rows.limbs[limb].modulus.value);
  }
};

// A tile is blockDim.x blocks of the stream, kEach coefficients each; they change threads in shared memory, so that
// neighbours store side by side.
template <typename Drawing, typename Target>
__global__ void __launch_bounds__(kDrawing, 16)
    DrawSmall(Grid grid, Streams streams, Drawing drawing, Target target, uint32_t n) {
  constexpr uint32_t kEach = Drawing::kEach;
  const Tile tile = grid.At(blockIdx.x);
  int16_t* const drawn = SharedMemory<int16_t>();
  uint32_t words[kBlockWords];
  ReadBlock(streams.SeedOf(tile.entry), tile.index * blockDim.x + threadIdx.x, Drawing::kTag, streams.ObjectOf(tile.entry), 0,
            words);
  int16_t values[kEach];
  drawing.Draw(words, values);
#pragma unroll
  for (uint32_t k = 0; k < kEach; ++k) drawn[threadIdx.x * kEach + k] = values[k];
  __syncthreads();
#pragma unroll
  for (uint32_t k = 0; k < kEach; ++k) {
    const uint32_t place = k * blockDim.x + threadIdx.x, at = tile.index * blockDim.x * kEach + place;
    if (at < n) target.Store(tile.entry, n, at, drawn[place]);
  }
}

template <typename Drawing, typename Target>
void Launch(Call& call, const Streams& streams, const Drawing& drawing, const Target& target, uint32_t n) {
  const uint32_t blocks = (n + Drawing::kEach - 1) / Drawing::kEach, threads = std::min(blocks, kDrawing);
  const Grid grid{(blocks + threads - 1) / threads, streams.entries(), 1};
  call.Launch(DrawSmall<Drawing, Target>, grid.blocks(), dim3(threads), threads * Drawing::kEach * sizeof(int16_t), grid,
              streams, drawing, target, n);
}

// A thread draws four coefficients, blockDim.x threads a tile; reduced.
__global__ void __launch_bounds__(kThreads)
    DrawUniform(Grid grid, Streams streams, uint64_t* out, const Limb* limbs, uint32_t n) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t block = tile.index * blockDim.x + threadIdx.x;
  uint32_t words[kBlockWords];
  ReadBlock(streams.SeedOf(tile.entry), block, kUniform, streams.ObjectOf(tile.entry), tile.limb, words);
  const Modulus q = limbs[tile.limb].modulus;
  uint64_t* const to = out + (uint64_t{tile.entry} * grid.limbs + tile.limb) * n;
#pragma unroll
  for (uint32_t k = 0; k < 4; ++k)
    if (4 * block + k < n) to[4 * block + k] = ReduceWide(WideNumber(words + 4 * k), q);
}

// One thread a block of the cipher. place: its counter and the three words of its nonce.
__global__ void __launch_bounds__(kThreads)
    ChaCha20(Grid grid, Batch<2> batch, const uint32_t* key, const uint32_t* place, uint32_t* out, uint32_t count) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t block = tile.index * blockDim.x + threadIdx.x;
  if (block >= count) return;
  const uint32_t* const from = place + (uint64_t{batch.Entry(1, tile.entry)} * count + block) * 4;
  const uint32_t nonce[3] = {from[1], from[2], from[3]};
  uint32_t words[kBlockWords];
  ChaCha20Block(key + uint64_t{8} * batch.Entry(0, tile.entry), from[0], nonce, words);
  uint32_t* const to = out + (uint64_t{tile.entry} * count + block) * kBlockWords;
#pragma unroll
  for (uint32_t k = 0; k < kBlockWords; ++k) to[k] = words[k];
}

template <typename Stated>
Streams StreamsOf(Call& call, const Stated& in) {
  return {in.seeds.data, BatchOf<1>(call, in.out.batch(), {in.seeds.batch()}), static_cast<uint32_t>(in.count)};
}

template <typename Stated>
ResidueRows RowsOf(Call& call, const Stated& in) {
  return {in.out.data, static_cast<uint64_t>(in.limbs * in.values), LimbsOf(call, in.moduli),
          static_cast<uint32_t>(in.limbs)};
}

void SampleUniform(Call& call, const handlers::SampleUniform& in) {
  const Streams streams = StreamsOf(call, in);
  const auto n = static_cast<uint32_t>(in.values), blocks = (n + 3) / 4, threads = std::min(blocks, kThreads);
  const Grid grid{(blocks + threads - 1) / threads, streams.entries(), static_cast<uint32_t>(in.limbs)};
  call.Launch(DrawUniform, grid.blocks(), dim3(threads), 0, grid, streams, in.out.data, LimbsOf(call, in.moduli), n);
}

void SampleTernary(Call& call, const handlers::SampleTernary& in) {
  LaunchTernary(call, StreamsOf(call, in), RowsOf(call, in), static_cast<uint32_t>(in.values));
}

void SampleGaussian(Call& call, const handlers::SampleGaussian& in) {
  LaunchGaussian(call, StreamsOf(call, in), ThresholdsOf(call, in.thresholds), RowsOf(call, in),
                 static_cast<uint32_t>(in.values));
}

void ChaCha20Blocks(Call& call, const handlers::Chacha20& in) {
  const auto batch = BatchOf<2>(call, in.out.batch(), {in.key.batch(), in.place.batch()});
  const auto count = static_cast<uint32_t>(in.count);
  const uint32_t threads = std::clamp(count, 1u, kThreads);
  const Grid grid{(count + threads - 1) / threads, batch.count, 1};
  call.Launch(ChaCha20, grid.blocks(), dim3(threads), 0, grid, batch, in.key.data, in.place.data, in.out.data, count);
}

}  // namespace

Thresholds ThresholdsOf(Call& call, Moduli words) {
  const std::vector<uint64_t> all(words.begin(), words.end());
  const auto* const table = call.Table<uint64_t>("thresholds", all, [&] { return all; });
  return {table, static_cast<uint32_t>(all.size() / 2)};
}

void LaunchTernary(Call& call, const Streams& streams, int16_t* out, uint32_t n) {
  Launch(call, streams, Ternary{}, SmallIntegers{out}, n);
}

void LaunchTernary(Call& call, const Streams& streams, const ResidueRows& out, uint32_t n) {
  Launch(call, streams, Ternary{}, Residues{out}, n);
}

void LaunchGaussian(Call& call, const Streams& streams, Thresholds thresholds, int16_t* out, uint32_t n) {
  Launch(call, streams, Gaussian{thresholds}, SmallIntegers{out}, n);
}

void LaunchGaussian(Call& call, const Streams& streams, Thresholds thresholds, const ResidueRows& out, uint32_t n) {
  Launch(call, streams, Gaussian{thresholds}, Residues{out}, n);
}

FHEJAX_CUDA_HANDLER(SampleUniform, SampleUniform);
FHEJAX_CUDA_HANDLER(SampleTernary, SampleTernary);
FHEJAX_CUDA_HANDLER(SampleGaussian, SampleGaussian);
FHEJAX_CUDA_HANDLER(Chacha20, ChaCha20Blocks);

}  // namespace fhejax
