// The handlers of key switching: with ModDown and without it.

#include "cuda/key_switch.h"

#include "cuda/handlers.h"
#include "cuda/masks.h"

namespace fhejax {

void LaunchRaiseCoefficients(Call& call, const SwitchPlan& plan, const SwitchMemory& memory, uint32_t polynomials) {
  const auto n = static_cast<uint32_t>(plan.n());
  LaunchConversion(call,
                   {memory.coefficients, memory.raised, plan.own_words(), plan.all_words(), polynomials, plan.digits,
                    plan.all_limbs(), plan.digit_size, n},
                   DigitConversions(call, plan.moduli, plan.special, plan.digit_size), plan.limbs);
  const RaisedRows raised{
      {memory.raised, plan.all_words(), plan.log_degree}, plan.digits, plan.digit_size, plan.own_limbs()};
  const NttSize size{polynomials * plan.digits, plan.all_limbs(), plan.log_degree, plan.limbs,
                     NttShapeOf(plan.log_degree)};
  LaunchForward(call, size, raised, raised, raised);
}

KeyRows LaunchKeyRows(Call& call, const SwitchPlan& plan, const KeyArgument& key, uint64_t* masks) {
  const uint64_t* const data = key.residues.data;
  const auto digits = static_cast<uint64_t>(key.digits()), limbs = static_cast<uint64_t>(key.limbs());
  const uint64_t half = limbs * plan.n(), digit = key.seeded() ? half : 2 * half;
  const auto skip = static_cast<uint32_t>(limbs - plan.all_limbs());
  if (!key.seeded()) return {data, data + half, digits * digit, digit, digits * digit, digit, skip, skip};
  LaunchDrawMasks(call,
                  {key.seeds.data, masks, static_cast<uint32_t>(key.seeds.entries), plan.digits, plan.own_limbs(),
                   static_cast<uint32_t>(plan.special.size()), static_cast<uint32_t>(plan.n())},
                  plan.limbs);
  return {data, masks, digits * digit, digit, plan.digits * plan.all_words(), plan.all_words(), skip, 0};
}

Division DivisionOf(const SwitchPlan& plan, const SwitchMemory& memory, uint32_t pairs, uint32_t kept) {
  const Primes all = Joined(plan.moduli, plan.special);
  return {memory.product,
          plan.all_words(),
          memory.product + kept * plan.n(),
          plan.all_words(),
          memory.lifts,
          2 * pairs,
          {all.begin(), all.begin() + kept},
          {all.begin() + kept, all.end()},
          plan.log_degree};
}

Quotient QuotientOf(Call& call, const Division& division, uint64_t* to) {
  return {division.from,
          division.from_stride,
          to,
          InverseProducts(call, division.keep, division.drop),
          static_cast<uint32_t>(division.keep.size()),
          division.log_degree};
}

namespace {

// Raises x and multiplies the digits by the key, to `out`.
template <typename Stated, typename Out>
void LaunchProducts(Call& call, const Stated& in, const SwitchPlan& plan, const SwitchMemory& memory, const Out& out) {
  const auto polynomials = static_cast<uint32_t>(in.x.entries);
  const OwnRows own{in.x.data,       nullptr,          nullptr, nullptr, plan.own_words(),
                    plan.own_limbs(), static_cast<uint32_t>(plan.n())};
  LaunchRaise(call, plan, memory, polynomials, ReadRows{in.x.data, plan.own_words(), plan.log_degree});
  LaunchMultiply(call, plan, memory, SwitchBatchOf(call, in.out.batch(), in.x.batch(), in.key, in.x.batch()), in.key, own, out);
}

// Times P, before ModDown.
void GadgetProduct(Call& call, const handlers::GadgetProduct& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  LaunchProducts(call, in, plan, {in.workspace.coefficients, in.workspace.raised, in.workspace.masks},
                 PairRows{in.out.data, plan.all_limbs(), static_cast<uint32_t>(plan.n())});
}

void KeySwitch(Call& call, const handlers::KeySwitch& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  const SwitchMemory memory = SwitchMemoryOf(in);
  LaunchProducts(call, in, plan, memory, ProductRows(plan, memory));
  const Division division = DivisionOf(plan, memory, static_cast<uint32_t>(in.batch), plan.own_limbs());
  LaunchDivision(call, division, QuotientOf(call, division, in.out.data));
}

}  // namespace

FHEJAX_CUDA_HANDLER(GadgetProduct, GadgetProduct);
FHEJAX_CUDA_HANDLER(KeySwitch, KeySwitch);

}  // namespace fhejax
