// A rotation of a sum that hoisted_sums.cc made, added to another one, modulo QP and times P: one ModDown, of the
// second component, and one key switch without its division.

#include <algorithm>
#include <vector>

#include "cpu/handlers.h"
#include "cpu/linear.h"

namespace fhejax {
namespace {

// The pairs and results of one entry, rows of extended limbs.
struct Rotated {
  const uint64_t *total, *pair;
  uint64_t* out;
};

// pair[1] divided by P: rows of q_0..q_l in NTT form. `dropped` has room for the special limbs.
void DivideSecond(ffi::ThreadPool& pool, const Plan& plan, const uint64_t* second, uint64_t* dropped,
                  uint64_t* divided) {
  const int64_t n = plan.n;
  const auto middle = plan.extended.begin() + plan.limbs;
  const BasisTable& table = BasisTableFor({middle, plan.extended.end()}, {plan.extended.begin(), middle});
  ToCoefficients(
      pool, n, plan.special, 1, [&](int64_t limb) -> const SourceLimb& { return table.source[limb]; },
      [&](int64_t limb, int64_t) { return second + (plan.limbs + limb) * n; },
      [&](int64_t limb, int64_t) { return dropped + limb * n; });
  ConvertBlocks(pool, n, {{&table, dropped}}, 0, plan.limbs, [&](int64_t, int64_t limb) { return divided + limb * n; });
  ParallelFor(pool, plan.limbs, [&](int64_t limb) {
    uint64_t* const row = divided + limb * n;
    ActiveKernels().forward_ntt(&row, &row, 1, NttTableFor(n, plan.extended[limb]));
    ActiveKernels().subtract_multiply(second + limb * n, row, table.inverse_product[limb], row, n, *plan.modulus[limb]);
  });
}

void AddRotation(ffi::ThreadPool& pool, const Switch& rotation, const Rotated& at, int64_t entry) {
  const Plan& plan = rotation.plan;
  const int64_t n = plan.n, extended = plan.extended_limbs(), block = rotation.block, blocks = n / block;
  const Scratch memory((plan.special + plan.limbs) * n + DigitWords(plan));
  uint64_t* const dropped = memory.get();
  uint64_t* const divided = dropped + plan.special * n;
  DivideSecond(pool, plan, at.pair + extended * n, dropped, divided);
  const Digits digits = DigitsAt(plan, divided + plan.limbs * n);
  RaiseAll(pool, plan, digits, [&](int64_t limb) { return divided + limb * n; });
  ParallelFor(pool, extended * blocks, [&](int64_t task) {
    const int64_t limb = task / blocks, number = task % blocks;
    uint64_t* const room = TaskScratch<2>(2 * block);
    uint64_t* const moved[] = {room, room + block};
    KeyBlocks key(plan, rotation.key, entry);
    RotateBlock(rotation, digits, key, limb, number, limb < plan.limbs ? divided + limb * n : nullptr,
                at.pair + limb * n, 1, moved);
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t word = (half * extended + limb) * n + number * block;
      ActiveKernels().add(at.total + word, moved[half], at.out + word, block, *plan.modulus[limb]);
    }
  });
}

// Operands: total and pair u64[*batch, 2, limbs + special, N], and a key. One result like them: total plus the
// automorphism of pair, of which the second component is divided by P and switched.
ffi::Error AddRotationHandler(ffi::ThreadPool pool, Input total, Input pair, ffi::RemainingArgs keys, Output out,
                              Moduli moduli, Moduli special, int64_t digit_size, int64_t element) {
  Switch rotation;
  const Dimensions shape = ShapeOf(pair);
  const auto extended = static_cast<int64_t>(moduli.size() + special.size());
  if (shape.size() < 3 || shape[shape.size() - 2] != extended || shape[shape.size() - 3] != 2)
    return Refuse("the pair does not fit");
  Dimensions polynomial{static_cast<int64_t>(moduli.size()), shape.back()};
  if (auto error = Prepare(polynomial, keys, moduli, special, digit_size, rotation.plan, rotation.key); error.failure())
    return error;
  const Plan& plan = rotation.plan;
  rotation.SetElement(element);
  PrepareResult(out);
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto total_entry = batch.Entries(ShapeOf(total), 3), pair_entry = batch.Entries(shape, 3);
  if (!rotation.key.Fits(batch) || (batch.count() && (total_entry.empty() || pair_entry.empty())))
    return Refuse("batch axes do not broadcast");
  const int64_t words = 2 * extended * plan.n;
  for (int64_t entry = 0; entry < batch.count(); ++entry)
    AddRotation(pool, rotation,
                {total.typed_data() + total_entry[entry] * words, pair.typed_data() + pair_entry[entry] * words,
                 out->typed_data() + entry * words},
                entry);
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxAddRotation, AddRotationHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .RemainingArgs()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<Moduli>("special")
                                  .Attr<int64_t>("digit_size")
                                  .Attr<int64_t>("element"));

}  // namespace fhejax
