// Transforms of rows between a reading and a writing of the caller's own.
//
// A reader has Reader<A>(tile, limb, q), which returns read(k): word k of the row of the tile's entry and limb, reduced or
// as butterflies take it. A writer has Writer<A>(tile, limb, q), which returns write(k, x), x as butterflies leave it;
// and Skips(tile), of whole rows. Where a transform takes two launches, rows pass through a middle, which is both.
#pragma once

#include <algorithm>

#include "cuda/batch.h"
#include "cuda/ntt.h"
#include "cuda/ntt_passes.h"
#include "cuda/sums.h"

namespace fhejax {

constexpr int kLogWords = 3;  // of a thread

// Rows u64[entries, limbs, N] in memory, entries `stride` words apart; words are reduced.
struct ReadRows {
  const uint64_t* data;
  uint64_t stride;
  int log_degree;

  __device__ __forceinline__ const uint64_t* Row(const Tile& tile) const {
    return data + tile.entry * stride + (uint64_t{tile.limb} << log_degree);
  }
  template <typename A>
  __device__ __forceinline__ auto Reader(const Tile& tile, const Limb&, const typename A::Modulus&) const {
    const uint64_t* const row = Row(tile);
    return [row](uint32_t k) { return A::Load(row[k]); };
  }
};

// The same to write, and as a middle.
struct WriteRows {
  uint64_t* data;
  uint64_t stride;
  int log_degree;

  __device__ __forceinline__ uint64_t* Row(const Tile& tile) const {
    return data + tile.entry * stride + (uint64_t{tile.limb} << log_degree);
  }
  __device__ __forceinline__ bool Skips(const Tile&) const { return false; }
  template <typename A>
  __device__ __forceinline__ auto Reader(const Tile& tile, const Limb&, const typename A::Modulus&) const {
    const uint64_t* const row = Row(tile);
    return [row](uint32_t k) { return A::Load(row[k]); };
  }
  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    uint64_t* const row = Row(tile);
    return [row, q](uint32_t k, typename A::Word x) { row[k] = A::Store(x, q); };
  }
};

// Times 1/N: the end of an inverse transform.
struct InverseRows : WriteRows {
  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb& limb, const typename A::Modulus& q) const {
    uint64_t* const row = Row(tile);
    const typename A::Factor w = A::FactorAt(limb.inverse_roots, 0, q);
    return [row, w, q](uint32_t k, typename A::Word x) { row[k] = A::Store(A::Multiply(x, w, q), q); };
  }
};

// Times a factor of the limb, which contains 1/N.
struct ScaledRows : WriteRows {
  const LimbFactor* factors;

  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    uint64_t* const row = Row(tile);
    const typename A::Factor w = SumOf<A>::FactorOf(factors[tile.limb]);
    return [row, w, q](uint32_t k, typename A::Word x) { row[k] = A::Store(A::Multiply(x, w, q), q); };
  }
};

// A tile is 2^log_columns columns of a row; block (columns, 2^log_first / 8).
template <bool kInverse, typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    NttColumns(Grid grid, From from, To to, const Limb* limbs, NttShape shape, int log_degree) {
  const Tile tile = grid.At(blockIdx.x);
  if (to.Skips(tile)) return;
  const Limb& limb = limbs[tile.limb];
  const int log_second = log_degree - shape.log_first;
  const uint32_t column = (tile.index << shape.log_columns) + threadIdx.x;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
    const NttPasses<A, kInverse, false, ColumnSlots> passes{q,
                                                            kInverse ? limb.inverse_roots : limb.roots,
                                                            1,
                                                            shape.log_first,
                                                            threadIdx.y,
                                                            blockDim.y,
                                                            SharedMemory<typename A::Word>(),
                                                            {shape.log_columns, threadIdx.x}};
    const auto read = from.template Reader<A>(tile, limb, q);
    const auto write = to.template Writer<A>(tile, limb, q);
    passes.Run([&](uint32_t k) { return read((k << log_second) + column); },
               [&](uint32_t k, typename A::Word x) { write((k << log_second) + column, x); });
  });
}

// A tile is 2^log_rows rows of 2^log_second words; block (2^log_second / 8, rows). Words are read and written where a
// thread's lie side by side, through shared memory. kWhole: log_first = 0.
template <bool kInverse, bool kWhole, typename From, typename To>
__global__ void __launch_bounds__(kThreads)
    NttContiguous(Grid grid, From from, To to, const Limb* limbs, NttShape shape, int log_degree) {
  const Tile tile = grid.At(blockIdx.x);
  if (to.Skips(tile)) return;
  const Limb& limb = limbs[tile.limb];
  const int log_second = log_degree - shape.log_first;
  const uint32_t row = (tile.index << shape.log_rows) + threadIdx.y, size = 1u << log_second, start = row << log_second;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using Word = typename A::Word;
    const typename A::Modulus q = A::ModulusOf(limb);
    Word* const shared = SharedMemory<Word>();
    const RowSlots slots{threadIdx.y * RowWords(log_second)};
    const NttPasses<A, kInverse, kWhole, RowSlots> passes{
        q,           kInverse ? limb.inverse_roots : limb.roots,
        (1u << shape.log_first) + row, log_second, threadIdx.x, blockDim.x, shared, slots};
    const auto read = from.template Reader<A>(tile, limb, q);
    const auto write = to.template Writer<A>(tile, limb, q);
    if (kInverse) {
      for (uint32_t k = threadIdx.x; k < size; k += blockDim.x) shared[slots(k)] = read(start + k);
      __syncthreads();
      passes.Run([&](uint32_t k) { return shared[slots(k)]; }, [&](uint32_t k, Word x) { write(start + k, x); });
    } else {
      passes.Run([&](uint32_t k) { return read(start + k); }, [&](uint32_t k, Word x) { shared[slots(k)] = x; });
      __syncthreads();
      for (uint32_t k = threadIdx.x; k < size; k += blockDim.x) write(start + k, shared[slots(k)]);
    }
  });
}

// Rows of so many entries and limbs; `limbs` from TransformLimbsOf.
struct NttSize {
  uint32_t entries, limbs;
  int log_degree;
  const Limb* table;
  NttShape shape;
};

template <bool kInverse, typename From, typename To>
void LaunchColumns(Call& call, const NttSize& size, const From& from, const To& to) {
  const NttShape shape = size.shape;
  const Grid grid{1u << (size.log_degree - shape.log_first - shape.log_columns), size.entries, size.limbs};
  call.Launch(NttColumns<kInverse, From, To>, grid.blocks(),
              dim3(1u << shape.log_columns, 1u << (shape.log_first - kLogWords)),
              ColumnWords(shape.log_first, shape.log_columns) * sizeof(uint64_t), grid, from, to, size.table, shape,
              size.log_degree);
}

template <bool kInverse, bool kWhole, typename From, typename To>
void LaunchContiguous(Call& call, const NttSize& size, const From& from, const To& to) {
  const NttShape shape = size.shape;
  const int log_second = size.log_degree - shape.log_first;
  const Grid grid{1u << (shape.log_first - shape.log_rows), size.entries, size.limbs};
  call.Launch(NttContiguous<kInverse, kWhole, From, To>, grid.blocks(),
              dim3(1u << std::max(log_second - kLogWords, 0), 1u << shape.log_rows),
              (RowWords(log_second) << shape.log_rows) * sizeof(uint64_t), grid, from, to, size.table, shape,
              size.log_degree);
}

template <typename From, typename Middle, typename To>
void LaunchForward(Call& call, const NttSize& size, const From& from, const Middle& middle, const To& to) {
  if (size.shape.log_first == 0) return LaunchContiguous<false, true>(call, size, from, to);
  LaunchColumns<false>(call, size, from, middle);
  LaunchContiguous<false, false>(call, size, middle, to);
}

// `to` multiplies by 1/N.
template <typename From, typename Middle, typename To>
void LaunchInverse(Call& call, const NttSize& size, const From& from, const Middle& middle, const To& to) {
  if (size.shape.log_first == 0) return LaunchContiguous<true, true>(call, size, from, to);
  LaunchContiguous<true, false>(call, size, from, middle);
  LaunchColumns<true>(call, size, middle, to);
}

}  // namespace fhejax
