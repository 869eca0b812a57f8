// A rotation of a sum that hoisted_sums.cu made, added to another one, modulo QP and times P: one ModDown, of the second
// component, and one key switch without its division.

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

// The divided second component as the digits' own rows, and the first component to add to the first half: reduced.
struct PairOwn {
  const uint64_t *divided, *pair;  // [entries, own limbs, N], [entries, 2, limbs, N]
  uint32_t own_limbs, limbs, n;

  template <typename A>
  __device__ __forceinline__ auto At(const Tile& tile, uint32_t entry, uint32_t, const Limb&,
                                     const typename A::Modulus&) const {
    const uint64_t at = uint64_t{tile.limb} * n;
    const uint64_t* const own = tile.limb < own_limbs ? divided + uint64_t{entry} * own_limbs * n + at : nullptr;
    const uint64_t* const first = pair + uint64_t{2} * entry * limbs * n + at;
    return [own, first](uint32_t k) {
      return OwnWords<A>{own ? A::Load(own[k]) : typename A::Word{0}, A::Load(first[k]), 0};
    };
  }
};

void AddRotation(Call& call, const handlers::AddRotation& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  const auto count = static_cast<uint32_t>(in.pair.entries);
  const uint64_t own_words = count * plan.own_words(), all_words = plan.all_words();
  const SwitchMemory memory{in.workspace.coefficients, in.workspace.raised, in.workspace.masks};
  uint64_t *const divided = in.workspace.divided, *const lifts = memory.raised;  // before there are raised digits
  const Division division{in.pair.data + all_words,
                          2 * all_words,
                          lifts + own_words,
                          all_words - plan.own_words(),
                          lifts,
                          count,
                          plan.moduli,
                          plan.special,
                          plan.log_degree};
  LaunchDivision(call, division, QuotientOf(call, division, divided));
  LaunchRaise(call, plan, memory, count, ReadRows{divided, plan.own_words(), plan.log_degree});
  LaunchMultiply(call, plan, memory,
                 SwitchBatchOf(call, in.out.batch(), in.pair.batch(), in.key, in.total.batch()), in.key,
                 PairOwn{divided, in.pair.data, plan.own_limbs(), plan.all_limbs(), static_cast<uint32_t>(plan.n())},
                 RotatedPairs{in.out.data, in.total.data,
                              InverseElement(static_cast<uint32_t>(in.element), plan.log_degree), plan.all_limbs(),
                              plan.log_degree});
}

}  // namespace

FHEJAX_CUDA_HANDLER(AddRotation, AddRotation);

}  // namespace fhejax
