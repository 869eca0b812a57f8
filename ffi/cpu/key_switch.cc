// The handlers of key switching: with ModDown and without it, and of the inner product alone.

#include "cpu/key_switch.h"

#include "cpu/handlers.h"

namespace fhejax {

Plan::Plan(int64_t n, Moduli moduli, Moduli special_moduli, int64_t digit_size)
    : n(n),
      limbs(SizeOf(moduli)),
      special(SizeOf(special_moduli)),
      digit_size(digit_size),
      digits(Ceiling(limbs, digit_size)),
      extended(moduli.begin(), moduli.end()) {
  extended.insert(extended.end(), special_moduli.begin(), special_moduli.end());
  for (const uint64_t q : extended) modulus.push_back(&ModulusFor(q));
  for (int64_t d = 0; d < digits; ++d) {
    const int64_t last = std::min(limbs, (d + 1) * digit_size);
    mod_up.push_back(&BasisTableFor({moduli.begin() + d * digit_size, moduli.begin() + last}, extended));
  }
}

namespace {

// The entries of x and their keys, some at a time: each(plan, first entry, entries, x row(limb, entry), keys).
template <typename Stated, typename Each>
void ForSwitches(const Stated& in, const Each& each) {
  const Plan plan(in);
  PrepareResult(in.out);
  const Key key(in.key, in.out.batch());
  const auto x_entry = EntriesOf(in.out.batch(), in.x);
  ForEntries(in.batch, plan.n, [&](int64_t first, int64_t entries) {
    each(
        plan, first, entries,
        [&](int64_t limb, int64_t entry) { return in.x.data + (x_entry[first + entry] * plan.limbs + limb) * plan.n; },
        KeyBlocks(plan, key, first));
  });
}

const auto kNoTerms = [](const Block&, Terms&) {};

// Times P, before ModDown.
void GadgetProduct(ffi::ThreadPool& pool, const handlers::GadgetProduct& in) {
  ForSwitches(in, [&](const Plan& plan, int64_t first, int64_t entries, const auto& row, const auto& keys) {
    const int64_t n = plan.n, group = DigitGroup(pool, plan, entries), y_words = entries * plan.limbs * n;
    const Scratch scratch(y_words + Digits::RaisedWords(plan, entries, group));
    const Digits digits{entries, group, scratch.get(), scratch.get() + y_words};
    Decompose(pool, plan, digits, row);
    MultiplyByKey(
        pool, plan, digits, true, 0, plan.extended_limbs(), keys,
        [&](int64_t entry, int64_t limb, auto& rows) { rows.push_back(row(limb, entry)); },
        [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, kNoTerms,
        [&](int64_t entry, int64_t half, int64_t limb) {
          return in.out.data + ((2 * (first + entry) + half) * plan.extended_limbs() + limb) * n;
        });
  });
}

void KeySwitch(ffi::ThreadPool& pool, const handlers::KeySwitch& in) {
  ForSwitches(in, [&](const Plan& plan, int64_t first, int64_t entries, const auto& row, const auto& keys) {
    const SwitchMemory memory(pool, plan, entries, plan.limbs, false);
    Decompose(pool, plan, memory.digits, row);
    SwitchAndDivide<false>(
        pool, plan, memory.digits, true, memory.division, keys,
        [&](int64_t entry, int64_t limb, auto& rows) { rows.push_back(row(limb, entry)); },
        [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, kNoTerms,
        QuotientInto(plan, plan.limbs, in.out.data + 2 * first * plan.limbs * plan.n));
  });
}

void InnerProduct(ffi::ThreadPool& pool, const handlers::InnerProduct& in) {
  PrepareResult(in.out);
  const int64_t n = in.values, limbs = in.limbs, terms = in.terms;
  const auto digit_entry = EntriesOf(in.out.batch(), in.digits), key_entry = EntriesOf(in.out.batch(), in.key);
  ParallelFor(pool, in.batch * 2 * limbs, [&](int64_t task) {
    const int64_t entry = task / (2 * limbs), half = task / limbs % 2, limb = task % limbs;
    const auto a = RowsAt(in.digits.data + (digit_entry[entry] * terms * limbs + limb) * n, terms, limbs * n, 0);
    const int64_t first = (key_entry[entry] * terms * 2 + half) * limbs + limb;
    const auto b = RowsAt(in.key.data + first * n, terms, 2 * limbs * n, 0);
    ActiveKernels().inner_product(a.data(), b.data(), terms, in.out.data + task * n, n, ModulusFor(in.moduli[limb]));
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(GadgetProduct, GadgetProduct);
FHEJAX_CPU_HANDLER(KeySwitch, KeySwitch);
FHEJAX_CPU_HANDLER(InnerProduct, InnerProduct);

}  // namespace fhejax
