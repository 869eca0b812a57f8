// The product of two ciphertexts, fused: tensor, relinearisation and rescale; and the latter two alone.

#include "cpu/handlers.h"
#include "cpu/key_switch.h"

namespace fhejax {
namespace {

// The rows of one limb of two ciphertexts (x0, x1) and (y0, y1).
struct Factors {
  const uint64_t *x0, *x1, *y0, *y1;
};

// P (x0 y0, x0 y1 + x1 y0) modulo q: what the key switch of x1 y1, still times P, is added to. `room` holds two blocks.
void AddLifted(const Modulus& q, Factor lift, Factors f, int64_t count, uint64_t* room, Terms& terms) {
  uint64_t *const x0 = room, *const x1 = room + count;
  ActiveKernels().multiply_factor(f.x0, lift, x0, count, q);
  ActiveKernels().multiply_factor(f.x1, lift, x1, count, q);
  terms.Add(0, x0, f.y0);
  terms.Add(1, x0, f.y1);
  terms.Add(1, x1, f.y0);
}

// P modulo each q.
std::vector<Factor> LiftFactors(const Plan& plan) {
  std::vector<Factor> lift;
  for (int64_t limb = 0; limb < plan.limbs; ++limb) {
    const Modulus& q = *plan.modulus[limb];
    lift.push_back(MakeFactor(ProductModulo(plan.extended, plan.limbs, q), q.value));
  }
  return lift;
}

void MultiplyCiphertexts(ffi::ThreadPool& pool, const handlers::MultiplyCiphertexts& in) {
  const Plan plan(in);
  const Key key(in.key, in.out.batch());
  const auto x_entry = EntriesOf(in.out.batch(), in.x), y_entry = EntriesOf(in.out.batch(), in.y);
  PrepareResult(in.out);
  const int64_t n = plan.n, kept = plan.limbs - 1;
  const std::vector<Factor> lift = LiftFactors(plan);
  ForEntries(in.batch, n, [&](int64_t first, int64_t entries) {
    const SwitchMemory memory(pool, plan, entries, kept, false);
    const auto factors = [&](int64_t entry, int64_t limb, int64_t offset) -> Factors {
      const int64_t at = limb * n + offset;
      const int64_t x_half = in.limbs_of_x * n, y_half = in.limbs_of_y * n;
      const uint64_t* const a = in.x.data + x_entry[first + entry] * 2 * x_half + at;
      const uint64_t* const b = in.y.data + y_entry[first + entry] * 2 * y_half + at;
      return {a, a + x_half, b, b + y_half};
    };
    // x1 y1 is needed twice, in full and block by block: made again, it never leaves the cache.
    Decompose(pool, plan, memory.digits, [&](int64_t limb, int64_t entry) {
      uint64_t* const row = memory.digits.y + (entry * plan.limbs + limb) * n;
      const Factors f = factors(entry, limb, 0);
      ActiveKernels().multiply(f.x1, f.y1, row, n, *plan.modulus[limb]);
      return row;
    });
    // ModDown by P and the rescale are one division, by P q_l.
    SwitchAndDivide<false>(
        pool, plan, memory.digits, true, memory.division, KeyBlocks(plan, key, first),
        [&](int64_t entry, int64_t limb, auto& rows) {
          const Factors f = factors(entry, limb, 0);
          rows.insert(rows.end(), {f.x0, f.x1, f.y0, f.y1});
        },
        [&](const Block& at) {
          const Factors f = factors(at.entry, at.limb, at.offset);
          ActiveKernels().multiply(f.x1, f.y1, at.room, at.count, *plan.modulus[at.limb]);
          return at.room;
        },
        [&](const Block& at, Terms& terms) {
          if (at.limb < plan.limbs)
            AddLifted(*plan.modulus[at.limb], lift[at.limb], factors(at.entry, at.limb, at.offset),
                      at.count, at.room + at.count, terms);
        },
        QuotientInto(plan, kept, in.out.data + 2 * first * kept * n));
  });
}

void RelinearizeRescale(ffi::ThreadPool& pool, const handlers::RelinearizeRescale& in) {
  const Plan plan(in);
  const Key key(in.key, in.out.batch());
  const auto d_entry = EntriesOf(in.out.batch(), in.d);
  PrepareResult(in.out);
  const int64_t n = plan.n, kept = plan.limbs - 1;
  const std::vector<Factor> lift = LiftFactors(plan);
  ForEntries(in.batch, n, [&](int64_t first, int64_t entries) {
    const SwitchMemory memory(pool, plan, entries, kept, false);
    const auto row = [&](int64_t entry, int64_t component, int64_t limb) {
      return in.d.data + ((3 * d_entry[first + entry] + component) * plan.limbs + limb) * n;
    };
    Decompose(pool, plan, memory.digits, [&](int64_t limb, int64_t entry) { return row(entry, 2, limb); });
    SwitchAndDivide<false>(
        pool, plan, memory.digits, true, memory.division, KeyBlocks(plan, key, first),
        [&](int64_t entry, int64_t limb, auto& rows) {
          for (int64_t component = 0; component < 3; ++component) rows.push_back(row(entry, component, limb));
        },
        [&](const Block& at) { return row(at.entry, 2, at.limb) + at.offset; },
        [&](const Block& at, Terms& terms) {
          if (at.limb >= plan.limbs) return;
          std::fill_n(at.room, at.count, lift[at.limb].value);
          for (int64_t half = 0; half < 2; ++half) terms.Add(half, row(at.entry, half, at.limb) + at.offset, at.room);
        },
        QuotientInto(plan, kept, in.out.data + 2 * first * kept * n));
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(MultiplyCiphertexts, MultiplyCiphertexts);
FHEJAX_CPU_HANDLER(RelinearizeRescale, RelinearizeRescale);

}  // namespace fhejax
