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

// ModDown by P and the rescale are one division, by P q_l.
template <typename Stated, typename From, typename Own>
void LaunchProduct(Call& call, const Stated& in, const SwitchPlan& plan, const SwitchBatch& batch, int64_t polynomials,
                   const From& from, const Own& own) {
  const SwitchMemory memory = SwitchMemoryOf(in);
  LaunchRaise(call, plan, memory, static_cast<uint32_t>(polynomials), from);
  LaunchMultiply(call, plan, memory, batch, in.key, own, ProductRows(plan, memory));
  const Division division = DivisionOf(plan, memory, batch.count, plan.own_limbs() - 1);
  LaunchDivision(call, division, QuotientOf(call, division, in.out.data));
}

void MultiplyCiphertexts(Call& call, const handlers::MultiplyCiphertexts& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  const Shape batch = in.out.batch();
  const Tensor tensor{BatchOf<2>(call, batch, {in.x.batch(), in.y.batch()}),
                      in.x.data,
                      in.y.data,
                      static_cast<uint64_t>(in.limbs_of_x) << plan.log_degree,
                      static_cast<uint64_t>(in.limbs_of_y) << plan.log_degree,
                      Products(call, plan.moduli, plan.special),
                      plan.own_limbs(),
                      plan.log_degree};
  // The digits are those of each entry of the result.
  LaunchProduct(call, in, plan, SwitchBatchOf(call, batch, batch, in.key, in.x.batch()), in.batch, tensor, tensor);
}

void RelinearizeRescale(Call& call, const handlers::RelinearizeRescale& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  const uint64_t words = plan.own_words();
  const uint64_t* const d0 = in.d.data;
  LaunchProduct(call, in, plan, SwitchBatchOf(call, in.out.batch(), in.d.batch(), in.key, in.d.batch()), in.d.entries,
                ReadRows{d0 + 2 * words, 3 * words, plan.log_degree},
                OwnRows{d0 + 2 * words, d0, d0 + words, Products(call, plan.moduli, plan.special), 3 * words,
                        plan.own_limbs(), static_cast<uint32_t>(plan.n())});
}

}  // namespace

FHEJAX_CUDA_HANDLER(MultiplyCiphertexts, MultiplyCiphertexts);
FHEJAX_CUDA_HANDLER(RelinearizeRescale, RelinearizeRescale);

}  // namespace fhejax
