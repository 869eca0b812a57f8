// Forward and inverse NTT of every row, in one launch or two.

#include "cuda/ntt.h"

#include <algorithm>

#include "cuda/automorphism.h"
#include "cuda/batch.h"
#include "cuda/handlers.h"
#include "cuda/ntt_passes.h"

namespace fhejax {
namespace {

constexpr int kLogWhole = 11;  // rows up to this size are transformed in one launch
constexpr int kLogWords = 3;   // of a thread

template <typename A, bool kInverse>
__device__ __forceinline__ const void* RootsOf(const Limb& limb) {
  return kInverse ? limb.inverse_roots : limb.roots;
}

// A tile is 2^log_columns columns of a row; block (columns, 2^log_first / 8). From reduced words to reduced words, with
// the factor 1/N in the inverse.
template <bool kInverse>
__global__ void __launch_bounds__(kThreads) NttColumns(Grid grid, NttRows rows, const Limb* limbs, NttShape shape) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const int log_second = rows.log_degree - shape.log_first;
  const uint64_t start = (uint64_t{tile.limb} << rows.log_degree) + (tile.index << shape.log_columns) + threadIdx.x;
  const uint64_t* const from = rows.from + tile.entry * rows.from_stride + start;
  uint64_t* const to = rows.to + tile.entry * rows.to_stride + start;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
    const void* const roots = RootsOf<A, kInverse>(limb);
    const NttPasses<A, kInverse, false, ColumnSlots> passes{q,
                                                            roots,
                                                            1,
                                                            shape.log_first,
                                                            threadIdx.y,
                                                            blockDim.y,
                                                            SharedMemory<typename A::Word>(),
                                                            {shape.log_columns, threadIdx.x}};
    passes.Run([&](uint32_t k) { return A::Load(from[uint64_t{k} << log_second]); },
               [&](uint32_t k, typename A::Word x) {
                 if (kInverse) x = A::Multiply(x, A::FactorAt(roots, 0, q), q);
                 to[uint64_t{k} << log_second] = A::Store(x, q);
               });
  });
}

// A tile is 2^log_rows rows of 2^log_second words; block (2^log_second / 8, rows). From reduced words to reduced words,
// through shared memory where a thread's words lie side by side. kWhole: log_first = 0, with the factor 1/N in the inverse.
template <bool kInverse, bool kWhole>
__global__ void __launch_bounds__(kThreads) NttContiguous(Grid grid, NttRows rows, const Limb* limbs, NttShape shape) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const int log_second = rows.log_degree - shape.log_first;
  const uint32_t row = (tile.index << shape.log_rows) + threadIdx.y, size = 1u << log_second;
  const uint64_t start = (uint64_t{tile.limb} << rows.log_degree) + (uint64_t{row} << log_second);
  const uint64_t* const from = rows.from + tile.entry * rows.from_stride + start;
  uint64_t* const to = rows.to + tile.entry * rows.to_stride + start;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using Word = typename A::Word;
    const typename A::Modulus q = A::ModulusOf(limb);
    const void* const roots = RootsOf<A, kInverse>(limb);
    Word* const shared = SharedMemory<Word>();
    const RowSlots slots{threadIdx.y * RowWords(log_second)};
    const NttPasses<A, kInverse, kWhole, RowSlots> passes{q,           roots,      (1u << shape.log_first) + row,
                                                          log_second,  threadIdx.x, blockDim.x,
                                                          shared,      slots};
    if (kInverse) {
      for (uint32_t k = threadIdx.x; k < size; k += blockDim.x) shared[slots(k)] = A::Load(from[k]);
      __syncthreads();
      passes.Run([&](uint32_t k) { return shared[slots(k)]; },
                 [&](uint32_t k, Word x) {
                   if (kWhole) x = A::Multiply(x, A::FactorAt(roots, 0, q), q);
                   to[k] = A::Store(x, q);
                 });
    } else {
      passes.Run([&](uint32_t k) { return A::Load(from[k]); }, [&](uint32_t k, Word x) { shared[slots(k)] = x; });
      __syncthreads();
      for (uint32_t k = threadIdx.x; k < size; k += blockDim.x) to[k] = A::Store(shared[slots(k)], q);
    }
  });
}

template <bool kInverse>
void LaunchColumns(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  const Grid grid{1u << (rows.log_degree - shape.log_first - shape.log_columns), rows.entries, rows.limbs};
  call.Launch(NttColumns<kInverse>, grid.blocks(), dim3(1u << shape.log_columns, 1u << (shape.log_first - kLogWords)),
              ColumnWords(shape.log_first, shape.log_columns) * sizeof(uint64_t), grid, rows, limbs, shape);
}

template <bool kInverse>
void LaunchContiguous(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  const int log_second = rows.log_degree - shape.log_first;
  const Grid grid{1u << (shape.log_first - shape.log_rows), rows.entries, rows.limbs};
  const dim3 block(1u << std::max(log_second - kLogWords, 0), 1u << shape.log_rows);
  const auto kernel = shape.log_first == 0 ? NttContiguous<kInverse, true> : NttContiguous<kInverse, false>;
  call.Launch(kernel, grid.blocks(), block, (RowWords(log_second) << shape.log_rows) * sizeof(uint64_t), grid, rows, limbs,
              shape);
}

// Rows that the second launch works on where the first has left them.
NttRows InPlace(NttRows rows) {
  rows.from = rows.to;
  rows.from_stride = rows.to_stride;
  return rows;
}

}  // namespace

NttShape NttShapeOf(int log_degree) {
  if (log_degree <= kLogWhole) return {0, 0, 0};
  constexpr int kLogTile = 8 + kLogWords;  // words of a block of 256 threads
  const int log_first = log_degree / 2, log_second = log_degree - log_first;
  return {log_first, std::min(kLogTile - log_first, 5), std::max(kLogTile - log_second, 0)};
}

void LaunchNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  if (shape.log_first) LaunchColumns<false>(call, rows, limbs, shape);
  LaunchContiguous<false>(call, shape.log_first ? InPlace(rows) : rows, limbs, shape);
}

void LaunchInverseNtt(Call& call, const NttRows& rows, const Limb* limbs, NttShape shape) {
  LaunchContiguous<true>(call, rows, limbs, shape);
  if (shape.log_first) LaunchColumns<true>(call, InPlace(rows), limbs, shape);
}

namespace {

// x: u64[*batch, limbs, N], one modulus a limb.
template <typename Transform>
ffi::Error TransformRows(Call& call, Input x, Output out, Moduli moduli, const Transform& transform) {
  const Dimensions shape = ShapeOf(x);
  if (shape.size() < 2 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))
    return ffi::Error::InvalidArgument("fhejax_ntt: the limb axis does not match the moduli");
  const int64_t n = shape.back(), entries = Product(shape, 0, shape.size() - 2);
  if (n < 2 || n & (n - 1) || entries > UINT32_MAX)
    return ffi::Error::InvalidArgument("fhejax_ntt: the degree is no power of two, or the batch too large");
  const uint64_t stride = static_cast<uint64_t>(n) * moduli.size();
  const NttRows rows{x.typed_data(), out->typed_data(),
                     stride,         stride,
                     static_cast<uint32_t>(entries), static_cast<uint32_t>(moduli.size()), LogOf(n)};
  transform(call, rows, TransformLimbsOf(call, moduli, n), NttShapeOf(rows.log_degree));
  return call.Result();
}

ffi::Error NttHandler(Call& call, Input x, Output out, Moduli moduli) {
  return TransformRows(call, x, out, moduli, LaunchNtt);
}

ffi::Error InverseNttHandler(Call& call, Input x, Output out, Moduli moduli) {
  return TransformRows(call, x, out, moduli, LaunchInverseNtt);
}

#define FHEJAX_UNARY .Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxNtt, NttHandler, FHEJAX_UNARY);
FHEJAX_CUDA_HANDLER(FhejaxInverseNtt, InverseNttHandler, FHEJAX_UNARY);

}  // namespace fhejax
