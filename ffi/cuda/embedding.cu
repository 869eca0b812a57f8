// The canonical embedding: complex slots <-> real coefficients, by an FFT over the powers of 5 (see
// fhejax/primitives/embedding.py). The operations of the CPU's kernels in their order, without fused ones: the same bits.
//
// Up to 2^11 slots, in bit-reversed order side by side, are transformed by a block in shared memory; the stages above take
// columns, 2^11 slots apart. It serves encoding and decoding only, so a stage is one pass over shared memory.

#include <algorithm>

#include "common/embedding_table.h"
#include "cuda/automorphism.h"
#include "cuda/batch.h"
#include "cuda/handlers.h"

namespace fhejax {
namespace {

constexpr int kLogTile = 11;

struct Complex {
  double re, im;
};

// exp(i pi 5^j / 4 half) at half + j.
const Complex* FactorsOf(Call& call, int64_t slots) {
  return call.Table<Complex>("embedding", {static_cast<uint64_t>(slots)}, [=] {
    const EmbeddingTable table = MakeEmbeddingTable(slots);
    std::vector<Complex> factors;
    for (int64_t i = 0; i < slots; ++i) factors.push_back({table.cosine[i], table.sine[i]});
    return factors;
  });
}

// (a, b) -> (a + w b, a - w b), or the inverse without its factor 1/2, (a, b) -> (a + b, conj(w) (a - b)).
template <bool kForward>
__device__ __forceinline__ void Butterfly(Complex& a, Complex& b, Complex w) {
  if (kForward) {
    const double re = __dsub_rn(__dmul_rn(b.re, w.re), __dmul_rn(b.im, w.im));
    const double im = __dadd_rn(__dmul_rn(b.re, w.im), __dmul_rn(b.im, w.re));
    b = {__dsub_rn(a.re, re), __dsub_rn(a.im, im)};
    a = {__dadd_rn(a.re, re), __dadd_rn(a.im, im)};
  } else {
    const double re = __dsub_rn(a.re, b.re), im = __dsub_rn(a.im, b.im);
    a = {__dadd_rn(a.re, b.re), __dadd_rn(a.im, b.im)};
    b = {__dadd_rn(__dmul_rn(re, w.re), __dmul_rn(im, w.im)), __dsub_rn(__dmul_rn(im, w.re), __dmul_rn(re, w.im))};
  }
}

// All stages of 2^log_size slots in shared memory, each in 2^log_columns columns side by side, the first of them
// `first_column` of 2^log_apart.
template <bool kForward>
__device__ __forceinline__ void Stages(Complex* z, int log_size, int log_columns, int log_apart, uint32_t first_column,
                                       const Complex* factors) {
  const uint32_t butterflies = 1u << (log_size + log_columns) >> 1, columns = (1u << log_columns) - 1;
  for (int step = 0; step < log_size; ++step) {
    const int log_half = kForward ? step : log_size - 1 - step;
    for (uint32_t i = threadIdx.x; i < butterflies; i += blockDim.x) {
      const uint32_t pair = i >> log_columns, column = i & columns, low = pair & ((1u << log_half) - 1);
      const uint32_t a = (((pair - low) * 2 + low) << log_columns) + column, b = a + (1u << (log_half + log_columns));
      Butterfly<kForward>(z[a], z[b], factors[(((1u << log_half) + low) << log_apart) + first_column + column]);
    }
    __syncthreads();
  }
}

struct EmbeddingShape {
  int log_slots, log_gap;  // gap = N / 2 slots

  __host__ __device__ __forceinline__ int log_degree() const { return log_slots + 1 + log_gap; }
};

// A tile is 2^log_tile slots in bit-reversed order. Coefficients of a -> z, after the stages within a tile.
__global__ void __launch_bounds__(kThreads)
    CoefficientsToTiles(Grid grid, const double* a, Complex* z, const Complex* factors, EmbeddingShape shape, int log_tile) {
  const Tile tile = grid.At(blockIdx.x);
  Complex* const shared = SharedMemory<Complex>();
  const double* const from = a + (uint64_t{tile.entry} << shape.log_degree());
  const uint32_t start = tile.index << log_tile, size = 1u << log_tile;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    const uint64_t k = ReverseBits(start + i, shape.log_slots);
    shared[i] = {from[k << shape.log_gap], from[(k + (uint64_t{1} << shape.log_slots)) << shape.log_gap]};
  }
  __syncthreads();
  Stages<true>(shared, log_tile, 0, 0, 0, factors);
  Complex* const to = z + (uint64_t{tile.entry} << shape.log_slots) + start;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) to[i] = shared[i];
}

// z, times scale, -> the coefficients, by the stages within a tile.
__global__ void __launch_bounds__(kThreads) TilesToCoefficients(Grid grid, const Complex* z, double* a, const Complex* factors,
                                                                EmbeddingShape shape, int log_tile, double scale) {
  const Tile tile = grid.At(blockIdx.x);
  Complex* const shared = SharedMemory<Complex>();
  const uint32_t start = tile.index << log_tile, size = 1u << log_tile;
  const Complex* const from = z + (uint64_t{tile.entry} << shape.log_slots) + start;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x)
    shared[i] = {__dmul_rn(from[i].re, scale), __dmul_rn(from[i].im, scale)};
  __syncthreads();
  Stages<false>(shared, log_tile, 0, 0, 0, factors);
  double* const to = a + (uint64_t{tile.entry} << shape.log_degree());
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    const uint64_t k = ReverseBits(start + i, shape.log_slots);
    to[k << shape.log_gap] = shared[i].re;
    to[(k + (uint64_t{1} << shape.log_slots)) << shape.log_gap] = shared[i].im;
  }
}

// The stages above a tile, of 2^log_columns columns, with a factor of what is read. `from` and `to` may be the same.
template <bool kForward>
__global__ void __launch_bounds__(kThreads) TransformColumns(Grid grid, const Complex* from, Complex* to,
                                                             const Complex* factors, int log_slots, int log_columns,
                                                             double scale) {
  const Tile tile = grid.At(blockIdx.x);
  Complex* const shared = SharedMemory<Complex>();
  const int log_size = log_slots - kLogTile;
  const uint64_t start = uint64_t{tile.entry} << log_slots;
  const uint32_t first = tile.index << log_columns, size = 1u << (log_size + log_columns);
  const auto place = [&](uint32_t i) {
    return start + (uint64_t{i >> log_columns} << kLogTile) + first + (i & ((1u << log_columns) - 1));
  };
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    const Complex x = from[place(i)];
    shared[i] = {__dmul_rn(x.re, scale), __dmul_rn(x.im, scale)};
  }
  __syncthreads();
  Stages<kForward>(shared, log_size, log_columns, kLogTile, first, factors);
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) to[place(i)] = shared[i];
}

__global__ void __launch_bounds__(kThreads) Clear(double* a, uint64_t count) {
  const uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) a[i] = 0;
}

struct Transform {
  EmbeddingShape shape;
  int log_tile, log_columns;
  uint32_t entries;
  const Complex* factors;

  bool has_columns() const { return shape.log_slots > kLogTile; }
  Grid tiles() const { return {1u << (shape.log_slots - log_tile), entries, 1}; }
  Grid columns() const { return {1u << (kLogTile - log_columns), entries, 1}; }
  dim3 block() const { return dim3(std::min(kThreads, std::max(1u, 1u << log_tile >> 1))); }
  size_t shared() const { return sizeof(Complex) << log_tile; }
};

Transform TransformOf(Call& call, int64_t entries, int64_t slots, int64_t degree) {
  const int log_slots = LogOf(slots), log_tile = std::min(log_slots, kLogTile);
  return {{log_slots, LogOf(degree) - 1 - log_slots},
          log_tile,
          std::max(2 * kLogTile - log_slots, 0),
          static_cast<uint32_t>(entries),
          FactorsOf(call, slots)};
}

void ToCoefficients(Call& call, const handlers::SlotsToCoefficients& in) {
  const Transform t = TransformOf(call, in.batch, in.slots, in.n);
  const auto* from = reinterpret_cast<const Complex*>(in.z.data);
  double scale = 1.0 / static_cast<double>(in.slots);  // first, so that no sum overflows
  if (t.has_columns()) {
    auto* const work = reinterpret_cast<Complex*>(in.workspace.transformed);
    const Grid grid = t.columns();
    call.Launch(TransformColumns<false>, grid.blocks(), t.block(), t.shared(), grid, from, work, t.factors,
                t.shape.log_slots, t.log_columns, scale);
    from = work;
    scale = 1;
  }
  const auto count = static_cast<uint64_t>(in.batch * in.n);
  if (t.shape.log_gap) call.Launch(Clear, (count + kThreads - 1) / kThreads, dim3(kThreads), 0, in.out.data, count);
  const Grid grid = t.tiles();
  call.Launch(TilesToCoefficients, grid.blocks(), t.block(), t.shared(), grid, from, in.out.data, t.factors, t.shape,
              t.log_tile, scale);
}

void ToSlots(Call& call, const handlers::CoefficientsToSlots& in) {
  const Transform t = TransformOf(call, in.batch, in.slots, in.n);
  auto* const z = reinterpret_cast<Complex*>(in.out.data);
  const Grid tiles = t.tiles(), columns = t.columns();
  call.Launch(CoefficientsToTiles, tiles.blocks(), t.block(), t.shared(), tiles, in.a.data, z, t.factors, t.shape,
              t.log_tile);
  if (t.has_columns())
    call.Launch(TransformColumns<true>, columns.blocks(), t.block(), t.shared(), columns, z, z, t.factors,
                t.shape.log_slots, t.log_columns, 1.0);
}

}  // namespace

FHEJAX_CUDA_HANDLER(SlotsToCoefficients, ToCoefficients);
FHEJAX_CUDA_HANDLER(CoefficientsToSlots, ToSlots);

}  // namespace fhejax
