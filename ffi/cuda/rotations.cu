// Automorphisms of a ciphertext with their key switches; ModUp is done once for all of them.

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

// The automorphism of (c0 + u0 / P, u1 / P): the end of a division of u. Entries are components of pairs. A word goes
// where the automorphism takes it; aligned blocks go to such blocks, so the words of a warp stay side by side.
struct RotatedQuotient {
  Quotient quotient;
  Batch<1> batch;
  const uint64_t* c;  // [entries, 2, kept, N], reduced
  uint32_t inverse_element;

  __device__ __forceinline__ bool Skips(const Tile&) const { return false; }
  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    const int log_degree = quotient.log_degree;
    const uint32_t kept = quotient.kept, inverse = inverse_element;
    const uint64_t* const row = quotient.from + tile.entry * quotient.from_stride + (uint64_t{tile.limb} << log_degree);
    uint64_t* const out = quotient.to + ((uint64_t{tile.entry} * kept + tile.limb) << log_degree);
    const bool first = tile.entry % 2 == 0;
    const uint64_t* const added =
        c + ((uint64_t{2} * batch.Entry(0, tile.entry / 2) * kept + tile.limb) << log_degree);
    const typename A::Factor w = SumOf<A>::FactorOf(quotient.inverses[tile.limb]);
    return [=](uint32_t k, typename A::Word lift) {
      typename A::Word x = A::Multiply(A::Subtract(A::Load(row[k]), lift, q), w, q);
      if (first) x = A::Add(x, A::Load(added[k]));
      out[AutomorphismSource(k, log_degree, inverse)] = A::Store(x, q);
    };
  }
};

void HoistedRotations(Call& call, const handlers::HoistedRotations& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  const SwitchMemory memory = SwitchMemoryOf(in);
  const Shape batch = in.out[0].batch(), own = in.ciphertext.batch();
  const uint64_t words = plan.own_words();
  const uint64_t* const c0 = in.ciphertext.data;
  LaunchRaise(call, plan, memory, static_cast<uint32_t>(in.ciphertext.entries),
              ReadRows{c0 + words, 2 * words, plan.log_degree});
  for (int64_t r = 0; r < in.rotations; ++r) {
    LaunchMultiply(
        call, plan, memory, SwitchBatchOf(call, batch, own, in.keys[r], own), in.keys[r],
        OwnRows{c0 + words, nullptr, nullptr, nullptr, 2 * words, plan.own_limbs(), static_cast<uint32_t>(plan.n())},
        ProductRows(plan, memory));
    const Division division = DivisionOf(plan, memory, static_cast<uint32_t>(in.batch), plan.own_limbs());
    LaunchDivision(call, division,
                   RotatedQuotient{QuotientOf(call, division, in.out[r].data), BatchOf<1>(call, batch, {own}), c0,
                                   InverseElement(static_cast<uint32_t>(in.elements[r]), plan.log_degree)});
  }
}

}  // namespace

FHEJAX_CUDA_HANDLER(HoistedRotations, HoistedRotations);

}  // namespace fhejax
