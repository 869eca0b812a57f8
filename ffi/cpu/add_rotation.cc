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

void AddRotation(ffi::ThreadPool& pool, const Plan& plan, const Switch& rotation, const Rotated& at, int64_t entry) {
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
    RotateBlock(plan, rotation, digits, key, limb, number, limb < plan.limbs ? divided + limb * n : nullptr,
                at.pair + limb * n, 1, moved);
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t word = (half * extended + limb) * n + number * block;
      ActiveKernels().add(at.total + word, moved[half], at.out + word, block, *plan.modulus[limb]);
    }
  });
}

void AddRotations(ffi::ThreadPool& pool, const handlers::AddRotation& in) {
  const Plan plan(in);
  const Shape batch = in.out.batch();
  const Switch rotation(Key(in.key, batch), plan.n, in.element);
  const auto total_entry = EntriesOf(batch, in.total), pair_entry = EntriesOf(batch, in.pair);
  PrepareResult(in.out);
  const int64_t words = 2 * plan.extended_limbs() * plan.n;
  for (int64_t entry = 0; entry < in.batch; ++entry)
    AddRotation(pool, plan, rotation,
                {in.total.data + total_entry[entry] * words, in.pair.data + pair_entry[entry] * words,
                 in.out.data + entry * words},
                entry);
}

}  // namespace

FHEJAX_CPU_HANDLER(AddRotation, AddRotations);

}  // namespace fhejax
