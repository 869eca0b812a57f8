// Modular arithmetic value by value. Operands and results are reduced.

#include <algorithm>

#include "cuda/arithmetic.h"
#include "cuda/batch.h"
#include "cuda/handlers.h"

namespace fhejax {
namespace {

constexpr uint32_t kEach = 4;  // words of a thread: loads in flight

struct Sum {
  static constexpr bool kOnlyIntegers = true;
  static constexpr int kOperands = 2;
  template <typename A>
  FHEJAX_DEVICE uint64_t Of(const uint64_t (&x)[2], const typename A::Modulus& q) {
    return Reduce(x[0] + x[1], q.value);
  }
};

struct Difference {
  static constexpr bool kOnlyIntegers = true;
  static constexpr int kOperands = 2;
  template <typename A>
  FHEJAX_DEVICE uint64_t Of(const uint64_t (&x)[2], const typename A::Modulus& q) {
    return Reduce(x[0] - x[1] + q.value, q.value);
  }
};

struct ProductOfTwo {
  static constexpr bool kOnlyIntegers = false;
  static constexpr int kOperands = 2;
  template <typename A>
  FHEJAX_DEVICE uint64_t Of(const uint64_t (&x)[2], const typename A::Modulus& q) {
    return A::Store(A::Multiply(A::Load(x[0]), A::Load(x[1]), q), q);
  }
};

struct ProductAndSum {
  static constexpr bool kOnlyIntegers = false;
  static constexpr int kOperands = 3;
  template <typename A>
  FHEJAX_DEVICE uint64_t Of(const uint64_t (&x)[3], const typename A::Modulus& q) {
    return A::Store(A::Add(A::Multiply(A::Load(x[0]), A::Load(x[1]), q), A::Load(x[2])), q);
  }
};

template <int kOperands>
struct Operands {
  const uint64_t* data[kOperands];
};

// A tile is kEach * blockDim.x words of a row of N.
template <typename Operation>
__global__ void __launch_bounds__(kThreads)
    Elementwise(Grid grid, Batch<Operation::kOperands> batch, Operands<Operation::kOperands> operands, uint64_t* out,
                const Limb* limbs, uint32_t n) {
  constexpr int kOperands = Operation::kOperands;
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint64_t* rows[kOperands];
#pragma unroll
  for (int k = 0; k < kOperands; ++k)
    rows[k] = operands.data[k] + (uint64_t{batch.Entry(k, tile.entry)} * grid.limbs + tile.limb) * n;
  uint64_t* const to = out + (uint64_t{tile.entry} * grid.limbs + tile.limb) * n;
  const auto body = [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
#pragma unroll
    for (uint32_t each = 0; each < kEach; ++each) {
      const uint32_t at = (tile.index * kEach + each) * blockDim.x + threadIdx.x;
      if (at >= n) continue;
      uint64_t x[kOperands];
#pragma unroll
      for (int k = 0; k < kOperands; ++k) x[k] = rows[k][at];
      to[at] = Operation::template Of<A>(x, q);
    }
  };
  if constexpr (Operation::kOnlyIntegers)
    body(Integer{});
  else
    WithArithmetic(limb, body);
}

// Operand 1 is u64[*batch, limbs], reduced: one factor a row.
__global__ void __launch_bounds__(kThreads)
    Scale(Grid grid, Batch<2> batch, Operands<2> operands, uint64_t* out, const Limb* limbs, uint32_t n) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint64_t* const row = operands.data[0] + (uint64_t{batch.Entry(0, tile.entry)} * grid.limbs + tile.limb) * n;
  const uint64_t scalar = operands.data[1][uint64_t{batch.Entry(1, tile.entry)} * grid.limbs + tile.limb];
  uint64_t* const to = out + (uint64_t{tile.entry} * grid.limbs + tile.limb) * n;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
    const typename A::Word factor = A::Load(scalar);
#pragma unroll
    for (uint32_t each = 0; each < kEach; ++each) {
      const uint32_t at = (tile.index * kEach + each) * blockDim.x + threadIdx.x;
      if (at < n) to[at] = A::Store(A::Multiply(A::Load(row[at]), factor, q), q);
    }
  });
}

// Launches on each row of a call with these operands.
template <size_t kOperands, typename Stated>
void LaunchRows(Call& call,
                void (*kernel)(Grid, Batch<kOperands>, Operands<kOperands>, uint64_t*, const Limb*, uint32_t), const Stated& in,
                const Argument<const uint64_t>* const (&operands)[kOperands]) {
  Operands<kOperands> data;
  std::array<Shape, kOperands> axes;
  for (size_t k = 0; k < kOperands; ++k) data.data[k] = operands[k]->data, axes[k] = operands[k]->batch();
  const auto batch = BatchOf<kOperands>(call, in.out.batch(), axes);
  const auto n = static_cast<uint32_t>(in.values);
  const uint32_t threads = std::min(kThreads, std::max(1u, (n + kEach - 1) / kEach));
  const Grid grid{(n + kEach * threads - 1) / (kEach * threads), batch.count, static_cast<uint32_t>(in.limbs)};
  call.Launch(kernel, grid.blocks(), dim3(threads), 0, grid, batch, data, in.out.data, LimbsOf(call, in.moduli), n);
}

void LaunchAdd(Call& call, const handlers::Add& in) { LaunchRows<2>(call, Elementwise<Sum>, in, {&in.a, &in.b}); }

void LaunchSubtract(Call& call, const handlers::Subtract& in) {
  LaunchRows<2>(call, Elementwise<Difference>, in, {&in.a, &in.b});
}

void LaunchMultiply(Call& call, const handlers::Multiply& in) {
  LaunchRows<2>(call, Elementwise<ProductOfTwo>, in, {&in.a, &in.b});
}

void LaunchMultiplyAdd(Call& call, const handlers::MultiplyAdd& in) {
  LaunchRows<3>(call, Elementwise<ProductAndSum>, in, {&in.a, &in.b, &in.c});
}

void LaunchScale(Call& call, const handlers::MultiplyScalar& in) { LaunchRows<2>(call, Scale, in, {&in.a, &in.scalar}); }

}  // namespace

FHEJAX_CUDA_HANDLER(Add, LaunchAdd);
FHEJAX_CUDA_HANDLER(Subtract, LaunchSubtract);
FHEJAX_CUDA_HANDLER(Multiply, LaunchMultiply);
FHEJAX_CUDA_HANDLER(MultiplyAdd, LaunchMultiplyAdd);
FHEJAX_CUDA_HANDLER(MultiplyScalar, LaunchScale);

}  // namespace fhejax
