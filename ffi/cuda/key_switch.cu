// The handlers of key switching: with ModDown and without it.

#include "cuda/key_switch.h"

#include "cuda/handlers.h"
#include "cuda/masks.h"

namespace fhejax {

ffi::Error MakeSwitchPlan(Call& call, int64_t degree, Moduli moduli, Moduli special, int64_t digit_size,
                          SwitchPlan& plan) {
  if (degree < 2 || degree & (degree - 1) || degree > INT32_MAX || moduli.size() == 0 || digit_size < 1)
    return ffi::Error::InvalidArgument("fhejax key switch: operand shapes do not fit");
  const auto limbs = static_cast<int64_t>(moduli.size());
  plan.moduli = PrimesOf(moduli);
  plan.special = PrimesOf(special);
  plan.digit_size = static_cast<uint32_t>(std::min(digit_size, limbs));
  plan.digits = static_cast<uint32_t>((limbs + plan.digit_size - 1) / plan.digit_size);
  plan.log_degree = LogOf(degree);
  const Primes all = Joined(plan.moduli, plan.special);
  plan.limbs = TransformLimbsOf(call, {all.data(), all.size()}, degree);
  return ffi::Error::Success();
}

ffi::Error TakeKey(ffi::RemainingArgs operands, size_t& index, const SwitchPlan& plan, SwitchKey& key) {
  auto residues = operands.get<Input>(index++);
  if (residues.has_error()) return residues.error();
  key.data = residues->typed_data();
  key.shape = key.seeds_shape = {ShapeOf(*residues), 4};
  if (index < operands.size()) {
    auto next = operands.get<ffi::AnyBuffer>(index);
    if (next.has_error()) return next.error();
    if (next->element_type() == ffi::U32) {
      ++index;
      key.seeds = next->typed_data<uint32_t>();
      key.shape.own_axes = 3;
      key.seeds_shape = {ShapeOf(*next), 1};
    }
  }
  const Dimensions& shape = key.shape.shape;
  if (shape.size() < key.shape.own_axes || (!key.seeds && shape[shape.size() - 3] != 2) || key.digits() < plan.digits ||
      key.limbs() < plan.all_limbs() || shape.back() != static_cast<int64_t>(plan.n()) ||
      (key.seeds && (key.seeds_shape.shape.empty() || key.seeds_shape.shape.back() != 8)))
    return ffi::Error::InvalidArgument("fhejax key switch: the shapes of a key do not fit");
  return ffi::Error::Success();
}

ffi::Error TakeOneKey(ffi::RemainingArgs operands, const SwitchPlan& plan, SwitchKey& key) {
  size_t index = 0;
  if (operands.size() == 0) return ffi::Error::InvalidArgument("fhejax key switch: takes a key");
  if (auto error = TakeKey(operands, index, plan, key); error.failure()) return error;
  if (index != operands.size()) return ffi::Error::InvalidArgument("fhejax key switch: takes one key");
  return ffi::Error::Success();
}

std::optional<SwitchBatch> SwitchBatchOf(const Dimensions& result, const OperandShape& digits, const SwitchKey& key,
                                         const OperandShape& other) {
  if (result.size() < 3) return std::nullopt;
  return BroadcastOf<kSwitchOperands>({result, 3}, {digits, key.shape, key.seeds_shape, other});
}

SwitchMemory SwitchMemoryIn(Call& call, Output& workspace, const SwitchPlan& plan, const SwitchSize& size) {
  const uint64_t coefficients = size.polynomials * plan.own_words(), a_raised = plan.digits * plan.all_words();
  const uint64_t raised = size.polynomials * a_raised, masks = size.seeds * a_raised;
  const uint64_t product = 2 * size.pairs * plan.all_words() + size.more;
  const uint64_t lifts = 2 * uint64_t{size.pairs} * size.kept * plan.n();
  const uint64_t digits = size.keeps_digits ? coefficients + raised : std::max(coefficients + raised, lifts);
  const uint64_t all = digits + masks + product + (size.keeps_digits ? lifts : 0);
  uint64_t* const start = call.Workspace(workspace, all);
  return {start, start + coefficients, start + digits, start + digits + masks,
          size.keeps_digits ? start + digits + masks + product : start};
}

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

KeyRows LaunchKeyRows(Call& call, const SwitchPlan& plan, const SwitchKey& key, uint64_t* masks) {
  const uint64_t half = key.limbs() * plan.n(), digit = key.seeds ? half : 2 * half;
  const auto skip = static_cast<uint32_t>(key.limbs() - plan.all_limbs());
  if (!key.seeds)
    return {key.data, key.data + half, key.digits() * digit, digit, key.digits() * digit, digit, skip, skip};
  LaunchDrawMasks(call,
                  {key.seeds, masks, key.seed_count(), plan.digits, plan.own_limbs(),
                   static_cast<uint32_t>(plan.special.size()), static_cast<uint32_t>(plan.n())},
                  plan.limbs);
  return {key.data, masks, key.digits() * digit, digit, plan.digits * plan.all_words(), plan.all_words(), skip, 0};
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

struct Switch {
  SwitchPlan plan;
  SwitchKey key;
  SwitchBatch batch;
  uint32_t polynomials;
  OwnRows own;
};

// x: u64[*batch, limbs, N].
ffi::Error PrepareSwitch(Call& call, Input x, ffi::RemainingArgs keys, Output& out, Moduli moduli, Moduli special,
                         int64_t digit_size, Switch& all) {
  const Dimensions shape = ShapeOf(x);
  if (shape.size() < 2 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))
    return ffi::Error::InvalidArgument("fhejax key switch: the limb axis does not match the moduli");
  if (auto error = MakeSwitchPlan(call, shape.back(), moduli, special, digit_size, all.plan); error.failure())
    return error;
  if (auto error = TakeOneKey(keys, all.plan, all.key); error.failure()) return error;
  const auto batch = SwitchBatchOf(ShapeOf(*out), {shape, 2}, all.key, {shape, 2});
  if (!batch) return ffi::Error::InvalidArgument("fhejax key switch: batch axes do not broadcast");
  all.batch = *batch;
  all.polynomials = static_cast<uint32_t>(Product(shape, 0, shape.size() - 2));
  all.own = {x.typed_data(),        nullptr,              nullptr, nullptr, all.plan.own_words(),
             all.plan.own_limbs(), static_cast<uint32_t>(all.plan.n())};
  return ffi::Error::Success();
}

// -> u64[*batch, 2, limbs + special, N]: the switched polynomial times P, before ModDown.
ffi::Error GadgetProductHandler(Call& call, Input x, ffi::RemainingArgs keys, Output out, Output workspace, Moduli moduli,
                                Moduli special, int64_t digit_size) {
  Switch all;
  if (auto error = PrepareSwitch(call, x, keys, out, moduli, special, digit_size, all); error.failure()) return error;
  const SwitchPlan& plan = all.plan;
  const SwitchMemory memory = SwitchMemoryIn(call, workspace, plan, {all.polynomials, all.key.seed_count(), 0, 0});
  LaunchRaise(call, plan, memory, all.polynomials, ReadRows{x.typed_data(), plan.own_words(), plan.log_degree});
  LaunchMultiply(call, plan, memory, all.batch, all.key, all.own,
                 PairRows{out->typed_data(), plan.all_limbs(), static_cast<uint32_t>(plan.n())});
  return call.Result();
}

// -> u64[*batch, 2, limbs, N].
ffi::Error KeySwitchHandler(Call& call, Input x, ffi::RemainingArgs keys, Output out, Output workspace, Moduli moduli,
                            Moduli special, int64_t digit_size) {
  Switch all;
  if (special.size() == 0) return ffi::Error::InvalidArgument("fhejax_key_switch: no special moduli");
  if (auto error = PrepareSwitch(call, x, keys, out, moduli, special, digit_size, all); error.failure()) return error;
  const SwitchPlan& plan = all.plan;
  const uint32_t pairs = all.batch.count, kept = plan.own_limbs();
  const SwitchMemory memory =
      SwitchMemoryIn(call, workspace, plan, {all.polynomials, all.key.seed_count(), pairs, kept});
  LaunchRaise(call, plan, memory, all.polynomials, ReadRows{x.typed_data(), plan.own_words(), plan.log_degree});
  LaunchMultiply(call, plan, memory, all.batch, all.key, all.own, ProductRows(plan, memory));
  const Division division = DivisionOf(plan, memory, pairs, kept);
  LaunchDivision(call, division, QuotientOf(call, division, out->typed_data()));
  return call.Result();
}

#define FHEJAX_KEY_SWITCH            \
  .Arg<Input>()                      \
      .RemainingArgs()               \
      .Ret<ffi::Buffer<ffi::U64>>()  \
      .Ret<ffi::Buffer<ffi::U64>>()  \
      .Attr<Moduli>("moduli")        \
      .Attr<Moduli>("special")       \
      .Attr<int64_t>("digit_size")

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxGadgetProduct, GadgetProductHandler, FHEJAX_KEY_SWITCH);
FHEJAX_CUDA_HANDLER(FhejaxKeySwitch, KeySwitchHandler, FHEJAX_KEY_SWITCH);

}  // namespace fhejax
