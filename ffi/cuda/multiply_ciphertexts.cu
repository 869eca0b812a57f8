// The product of two ciphertexts: tensor, relinearisation and rescale; and the latter two alone.

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

// Two ciphertexts (x0, x1) and (y0, y1) for each entry of a batch, reduced. x1 y1 is made where it is needed: read by the
// inverse transform, and as the digits' own rows beside P (x0 y0) and P (x0 y1 + x1 y0).
struct Tensor {
  Batch<2> batch;
  const uint64_t *x, *y;
  uint64_t x_half, y_half;
  const LimbFactor* lift;  // P
  uint32_t limbs;
  int log_degree;

  __device__ __forceinline__ const uint64_t* RowOfX(const Tile& tile) const {
    return x + uint64_t{2} * batch.Entry(0, tile.entry) * x_half + (uint64_t{tile.limb} << log_degree);
  }
  __device__ __forceinline__ const uint64_t* RowOfY(const Tile& tile) const {
    return y + uint64_t{2} * batch.Entry(1, tile.entry) * y_half + (uint64_t{tile.limb} << log_degree);
  }

  template <typename A>
  __device__ __forceinline__ auto Reader(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    const uint64_t *const x1 = RowOfX(tile) + x_half, *const y1 = RowOfY(tile) + y_half;
    return [x1, y1, q](uint32_t k) { return A::Multiply(A::Load(x1[k]), A::Load(y1[k]), q); };
  }

  template <typename A>
  __device__ __forceinline__ auto At(const Tile& tile, uint32_t, uint32_t, const Limb&,
                                     const typename A::Modulus& q) const {
    const bool there = tile.limb < limbs;
    const uint64_t *const x0 = RowOfX(tile), *const y0 = RowOfY(tile), *const x1 = x0 + x_half, *const y1 = y0 + y_half;
    const typename A::Factor w = there ? SumOf<A>::FactorOf(lift[tile.limb]) : typename A::Factor{0, 0};
    return [there, x0, x1, y0, y1, w, q](uint32_t k) {
      if (!there) return OwnWords<A>{0, 0, 0};
      const typename A::Word a0 = A::Load(x0[k]), a1 = A::Load(x1[k]), b0 = A::Load(y0[k]), b1 = A::Load(y1[k]);
      const typename A::Word middle = A::Add(A::Multiply(a0, b1, q), A::Multiply(a1, b0, q));
      return OwnWords<A>{A::Multiply(a1, b1, q), A::Multiply(A::Multiply(a0, b0, q), w, q), A::Multiply(middle, w, q)};
    };
  }
};

ffi::Error Refuse(const char* why) { return ffi::Error::InvalidArgument(std::string("fhejax product: ") + why); }

// ModDown by P and the rescale are one division, by P q_l.
template <typename From, typename Own>
void LaunchProduct(Call& call, const SwitchPlan& plan, const SwitchKey& key, const SwitchBatch& batch, Output& out,
                   Output& workspace, uint32_t polynomials, const From& from, const Own& own) {
  const uint32_t kept = plan.own_limbs() - 1, pairs = batch.count;
  const SwitchMemory memory = SwitchMemoryIn(call, workspace, plan, {polynomials, key.seed_count(), pairs, kept});
  LaunchRaise(call, plan, memory, polynomials, from);
  LaunchMultiply(call, plan, memory, batch, key, own, ProductRows(plan, memory));
  const Division division = DivisionOf(plan, memory, pairs, kept);
  LaunchDivision(call, division, QuotientOf(call, division, out->typed_data()));
}

// x, y: u64[*batch, 2, at least limbs, N] -> u64[*batch, 2, limbs - 1, N].
ffi::Error MultiplyCiphertextsHandler(Call& call, Input x, Input y, ffi::RemainingArgs keys, Output out, Output workspace,
                                      Moduli moduli, Moduli special, int64_t digit_size) {
  const Dimensions x_shape = ShapeOf(x), y_shape = ShapeOf(y), result = ShapeOf(*out);
  if (x_shape.size() < 3 || y_shape.size() < 3 || y_shape.back() != x_shape.back() || moduli.size() < 2 ||
      std::min(x_shape[x_shape.size() - 2], y_shape[y_shape.size() - 2]) < static_cast<int64_t>(moduli.size()))
    return Refuse("operand shapes do not fit");
  SwitchPlan plan;
  SwitchKey key;
  if (auto error = MakeSwitchPlan(call, x_shape.back(), moduli, special, digit_size, plan); error.failure()) return error;
  if (auto error = TakeOneKey(keys, plan, key); error.failure()) return error;
  // The digits are those of each entry of the result.
  const auto batch = SwitchBatchOf(result, {result, 3}, key, {x_shape, 3});
  if (!batch) return Refuse("batch axes do not broadcast");
  const auto operands = BroadcastOf<2>({result, 3}, {OperandShape{x_shape, 3}, OperandShape{y_shape, 3}});
  if (!operands) return Refuse("batch axes do not broadcast");
  const Tensor tensor{*operands,
                      x.typed_data(),
                      y.typed_data(),
                      static_cast<uint64_t>(x_shape[x_shape.size() - 2]) << plan.log_degree,
                      static_cast<uint64_t>(y_shape[y_shape.size() - 2]) << plan.log_degree,
                      Products(call, plan.moduli, plan.special),
                      plan.own_limbs(),
                      plan.log_degree};
  LaunchProduct(call, plan, key, *batch, out, workspace, batch->count, tensor, tensor);
  return call.Result();
}

// d: u64[*batch, 3, limbs, N] -> u64[*batch, 2, limbs - 1, N].
ffi::Error RelinearizeRescaleHandler(Call& call, Input d, ffi::RemainingArgs keys, Output out, Output workspace,
                                     Moduli moduli, Moduli special, int64_t digit_size) {
  const Dimensions shape = ShapeOf(d);
  if (shape.size() < 3 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()) || moduli.size() < 2 ||
      shape[shape.size() - 3] != 3)
    return Refuse("operand shapes do not fit");
  SwitchPlan plan;
  SwitchKey key;
  if (auto error = MakeSwitchPlan(call, shape.back(), moduli, special, digit_size, plan); error.failure()) return error;
  if (auto error = TakeOneKey(keys, plan, key); error.failure()) return error;
  const auto batch = SwitchBatchOf(ShapeOf(*out), {shape, 3}, key, {shape, 3});
  if (!batch) return Refuse("batch axes do not broadcast");
  const uint64_t words = plan.own_words();
  const uint64_t* const d0 = d.typed_data();
  LaunchProduct(call, plan, key, *batch, out, workspace, static_cast<uint32_t>(Product(shape, 0, shape.size() - 3)),
                ReadRows{d0 + 2 * words, 3 * words, plan.log_degree},
                OwnRows{d0 + 2 * words, d0, d0 + words, Products(call, plan.moduli, plan.special), 3 * words,
                        plan.own_limbs(), static_cast<uint32_t>(plan.n())});
  return call.Result();
}

#define FHEJAX_PRODUCT               \
  .RemainingArgs()                   \
      .Ret<ffi::Buffer<ffi::U64>>()  \
      .Ret<ffi::Buffer<ffi::U64>>()  \
      .Attr<Moduli>("moduli")        \
      .Attr<Moduli>("special")       \
      .Attr<int64_t>("digit_size")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxMultiplyCiphertexts, MultiplyCiphertextsHandler, .Arg<Input>().Arg<Input>() FHEJAX_PRODUCT);
FHEJAX_CUDA_HANDLER(FhejaxRelinearizeRescale, RelinearizeRescaleHandler, .Arg<Input>() FHEJAX_PRODUCT);

}  // namespace fhejax
