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

ffi::Error Refuse(const char* why) { return ffi::Error::InvalidArgument(std::string("fhejax_add_rotation: ") + why); }

// Operands: total and pair u64[*batch, 2, limbs + special, N], and a key. One result like them: total plus the
// automorphism of pair, of which the second component is divided by P and switched.
ffi::Error AddRotationHandler(Call& call, Input total, Input pair, ffi::RemainingArgs keys, Output out, Output workspace,
                              Moduli moduli, Moduli special, int64_t digit_size, int64_t element) {
  const Dimensions shape = ShapeOf(pair), total_shape = ShapeOf(total);
  const auto all = static_cast<int64_t>(moduli.size() + special.size());
  if (shape.size() < 3 || shape[shape.size() - 2] != all || shape[shape.size() - 3] != 2 || special.size() == 0 ||
      total_shape.size() != shape.size() || !std::equal(shape.end() - 3, shape.end(), total_shape.end() - 3))
    return Refuse("the pairs do not fit");
  if (!IsElement(element, shape.back())) return Refuse("no galois element");
  SwitchPlan plan;
  SwitchKey key;
  if (auto error = MakeSwitchPlan(call, shape.back(), moduli, special, digit_size, plan); error.failure()) return error;
  if (auto error = TakeOneKey(keys, plan, key); error.failure()) return error;
  const auto batch = SwitchBatchOf(ShapeOf(*out), {shape, 3}, key, {total_shape, 3});
  if (!batch) return Refuse("batch axes do not broadcast");

  const auto count = static_cast<uint32_t>(Product(shape, 0, shape.size() - 3));
  const uint64_t own_words = count * plan.own_words(), all_words = plan.all_words();
  SwitchSize size{count, key.seed_count(), 0, 0};
  size.more = own_words;
  const SwitchMemory memory = SwitchMemoryIn(call, workspace, plan, size);
  uint64_t *const divided = memory.product, *const lifts = memory.raised;  // before there are raised digits
  const Division division{pair.typed_data() + all_words,
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
  LaunchMultiply(call, plan, memory, *batch, key,
                 PairOwn{divided, pair.typed_data(), plan.own_limbs(), plan.all_limbs(), static_cast<uint32_t>(plan.n())},
                 RotatedPairs{out->typed_data(), total.typed_data(),
                              InverseElement(static_cast<uint32_t>(element), plan.log_degree), plan.all_limbs(),
                              plan.log_degree});
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxAddRotation, AddRotationHandler,
                    .Arg<Input>()
                        .Arg<Input>()
                        .RemainingArgs()
                        .Ret<ffi::Buffer<ffi::U64>>()
                        .Ret<ffi::Buffer<ffi::U64>>()
                        .Attr<Moduli>("moduli")
                        .Attr<Moduli>("special")
                        .Attr<int64_t>("digit_size")
                        .Attr<int64_t>("element"));

}  // namespace fhejax
