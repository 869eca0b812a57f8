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

// Launches on each row of `out`: u64[*batch, limbs, N]; operand k has own_axes[k] axes of its own.
template <size_t kOperands>
ffi::Error LaunchRows(Call& call,
                      void (*kernel)(Grid, Batch<kOperands>, Operands<kOperands>, uint64_t*, const Limb*, uint32_t),
                      const std::array<Input, kOperands>& operands, const std::array<size_t, kOperands>& own_axes,
                      Output& out, Moduli moduli) {
  const Dimensions shape = ShapeOf(*out);
  if (shape.size() < 2 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))
    return ffi::Error::InvalidArgument("fhejax: the limb axis does not match the moduli");
  Operands<kOperands> data;
  std::array<OperandShape, kOperands> shapes;
  for (size_t k = 0; k < kOperands; ++k) {
    data.data[k] = operands[k].typed_data();
    shapes[k] = {ShapeOf(operands[k]), own_axes[k]};
  }
  const auto batch = BroadcastOf<kOperands>({shape, 2}, shapes);
  if (!batch) return ffi::Error::InvalidArgument("fhejax: batch axes do not broadcast");
  const auto n = static_cast<uint32_t>(shape.back());
  const uint32_t threads = std::min(kThreads, std::max(1u, (n + kEach - 1) / kEach));
  const Grid grid{(n + kEach * threads - 1) / (kEach * threads), batch->count, static_cast<uint32_t>(moduli.size())};
  call.Launch(kernel, grid.blocks(), dim3(threads), 0, grid, *batch, data, out->typed_data(), LimbsOf(call, moduli), n);
  return call.Result();
}

ffi::Error AddHandler(Call& call, Input a, Input b, Output out, Moduli moduli) {
  return LaunchRows<2>(call, Elementwise<Sum>, {a, b}, {2, 2}, out, moduli);
}

ffi::Error SubtractHandler(Call& call, Input a, Input b, Output out, Moduli moduli) {
  return LaunchRows<2>(call, Elementwise<Difference>, {a, b}, {2, 2}, out, moduli);
}

ffi::Error MultiplyHandler(Call& call, Input a, Input b, Output out, Moduli moduli) {
  return LaunchRows<2>(call, Elementwise<ProductOfTwo>, {a, b}, {2, 2}, out, moduli);
}

ffi::Error MultiplyAddHandler(Call& call, Input a, Input b, Input c, Output out, Moduli moduli) {
  return LaunchRows<3>(call, Elementwise<ProductAndSum>, {a, b, c}, {2, 2, 2}, out, moduli);
}

ffi::Error MultiplyScalarHandler(Call& call, Input a, Input scalar, Output out, Moduli moduli) {
  return LaunchRows<2>(call, Scale, {a, scalar}, {2, 1}, out, moduli);
}

#define FHEJAX_BINARY .Arg<Input>().Arg<Input>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxAdd, AddHandler, FHEJAX_BINARY);
FHEJAX_CUDA_HANDLER(FhejaxSubtract, SubtractHandler, FHEJAX_BINARY);
FHEJAX_CUDA_HANDLER(FhejaxMultiply, MultiplyHandler, FHEJAX_BINARY);
FHEJAX_CUDA_HANDLER(FhejaxMultiplyScalar, MultiplyScalarHandler, FHEJAX_BINARY);
FHEJAX_CUDA_HANDLER(FhejaxMultiplyAdd, MultiplyAddHandler, .Arg<Input>() FHEJAX_BINARY);

}  // namespace fhejax
