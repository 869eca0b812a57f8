// The product of two ciphertexts, fused: tensor, relinearisation and rescale.

#include "cpu/handlers.h"
#include "cpu/key_switch.h"

namespace fhejax {
namespace {

// The rows of one limb of two ciphertexts (x0, x1) and (y0, y1).
struct Factors {
  const uint64_t *x0, *x1, *y0, *y1;
};

// P (x0 y0, x0 y1 + x1 y0) modulo q: what the key switch of x1 y1, still times P, is added to. `room` holds two blocks.
void AddLifted(const Plan& plan, const Modulus& q, Factors f, int64_t count, uint64_t* room, Terms& terms) {
  uint64_t lift = 1;
  for (const uint64_t p : plan.special_moduli) lift = Multiply(lift, p % q.value, q);
  const Factor factor = MakeFactor(lift, q.value);
  uint64_t *const x0 = room, *const x1 = room + count;
  ActiveKernels().multiply_factor(f.x0, factor, x0, count, q);
  ActiveKernels().multiply_factor(f.x1, factor, x1, count, q);
  terms.Add(0, x0, f.y0);
  terms.Add(1, x0, f.y1);
  terms.Add(1, x1, f.y0);
}

// x, y: u64[*batch, 2, limbs, N] -> u64[*batch, 2, limbs - 1, N].
ffi::Error MultiplyCiphertextsHandler(ffi::ThreadPool pool, Input x, Input y, Input key, Output out, Moduli moduli,
                                      Moduli special, int64_t digit_size) {
  Plan plan;
  if (auto error = MakePlan(ShapeOf(x), ShapeOf(key), moduli, special, digit_size, plan); error.failure()) return error;
  PrepareResult(out);
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto x_entry = batch.Entries(ShapeOf(x), 3), y_entry = batch.Entries(ShapeOf(y), 3);
  const auto key_entry = batch.Entries(ShapeOf(key), 4);
  if (batch.count() && (x_entry.empty() || y_entry.empty() || key_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax_multiply_ciphertexts: batch axes do not broadcast");
  if (plan.limbs < 2) return ffi::Error::InvalidArgument("fhejax_multiply_ciphertexts: no modulus would be left");
  const int64_t n = plan.n, kept = plan.limbs - 1, extended = plan.extended_limbs();
  std::vector<uint64_t> keep = plan.moduli, drop = {plan.moduli.back()};
  keep.pop_back();
  drop.insert(drop.end(), special.begin(), special.end());

  ForEntries(batch.count(), n, [&](int64_t first, int64_t entries) {
    const int64_t group = DigitGroup(pool, plan, entries), y_words = entries * plan.limbs * n;
    const int64_t raised_words = Digits::RaisedRows(plan, entries, group) * n;
    const Scratch scratch(y_words + raised_words + entries * 2 * extended * n);
    const Digits digits{entries, group, scratch.get(), scratch.get() + y_words};
    uint64_t* const product = digits.raised + raised_words;
    const auto factors = [&](int64_t entry, int64_t limb, int64_t offset) -> Factors {
      const int64_t at = limb * n + offset, second = plan.limbs * n + at;
      const uint64_t* const a = x.typed_data() + x_entry[first + entry] * 2 * plan.limbs * n;
      const uint64_t* const b = y.typed_data() + y_entry[first + entry] * 2 * plan.limbs * n;
      return {a + at, a + second, b + at, b + second};
    };
    // x1 y1 is needed twice, in full and block by block: made again, it never leaves the cache.
    Decompose(pool, plan, digits, [&](int64_t limb, int64_t entry) {
      uint64_t* const row = digits.y + (entry * plan.limbs + limb) * n;
      const Factors f = factors(entry, limb, 0);
      ActiveKernels().multiply(f.x1, f.y1, row, n, ModulusFor(plan.moduli[limb]));
      return row;
    });
    MultiplyByKey(
        pool, plan, digits,
        [&](int64_t entry) { return key.typed_data() + key_entry[first + entry] * plan.key_words(); },
        [&](int64_t entry, int64_t limb, int64_t offset, int64_t count) {
          uint64_t* const block = TaskScratch(3 * count);
          const Factors f = factors(entry, limb, offset);
          ActiveKernels().multiply(f.x1, f.y1, block, count, ModulusFor(plan.moduli[limb]));
          return block;
        },
        [&](int64_t entry, int64_t limb, int64_t offset, int64_t count, Terms& terms) {
          if (limb < plan.limbs)
            AddLifted(plan, ModulusFor(plan.moduli[limb]), factors(entry, limb, offset), count,
                      TaskScratch(3 * count) + count, terms);
        },
        [&](int64_t entry, int64_t half) { return product + (2 * entry + half) * extended * n; });
    // ModDown by P and the rescale are one division, by P q_l.
    ModDownRows(
        pool, n, 2 * entries, keep, drop, [&](int64_t i, int64_t limb) { return product + (i * extended + limb) * n; },
        [&](int64_t i) { return product + (i * extended + kept) * n; },
        [&](int64_t i, int64_t limb) { return out->typed_data() + ((2 * first + i) * kept + limb) * n; },
        [&](int64_t i, int64_t limb, uint64_t* row, Factor w) {
          ActiveKernels().subtract_multiply(product + (i * extended + limb) * n, row, w, row, n,
                                            ModulusFor(keep[limb]));
        });
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxMultiplyCiphertexts, MultiplyCiphertextsHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<Moduli>("special")
                                  .Attr<int64_t>("digit_size"));

}  // namespace fhejax
