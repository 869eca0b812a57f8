// The handlers of key switching: with ModDown and without it, and of the inner product alone.

#include "cpu/key_switch.h"

#include "cpu/handlers.h"

namespace fhejax {

ffi::Error TakeKey(ffi::RemainingArgs operands, size_t& index, Key& key) {
  auto residues = operands.get<Input>(index++);
  if (residues.has_error()) return residues.error();
  key.data = residues->typed_data();
  key.shape = ShapeOf(*residues);
  if (index == operands.size()) return ffi::Error::Success();
  auto next = operands.get<ffi::AnyBuffer>(index);
  if (next.has_error()) return next.error();
  if (next->element_type() != ffi::U32) return ffi::Error::Success();
  ++index;
  key.seeds = next->typed_data<uint32_t>();
  key.seeds_shape = ShapeOf(*next);
  if (key.shape.size() < 2 || key.seeds_shape.empty() || key.seeds_shape.back() != 8)
    return ffi::Error::InvalidArgument("fhejax key switch: the shapes of a seeded key do not fit");
  key.shape.insert(key.shape.end() - 2, 2);
  return ffi::Error::Success();
}

ffi::Error MakePlan(const Dimensions& x, const Dimensions& key, Moduli moduli, Moduli special, int64_t digit_size,
                    Plan& plan) {
  if (x.size() < 2 || key.size() < 4 || key.back() != x.back() || key[key.size() - 3] != 2 || digit_size < 1)
    return ffi::Error::InvalidArgument("fhejax key switch: operand shapes do not fit");
  plan.n = x.back();
  plan.limbs = static_cast<int64_t>(moduli.size());
  plan.special = static_cast<int64_t>(special.size());
  plan.digit_size = digit_size;
  plan.digits = (plan.limbs + digit_size - 1) / digit_size;
  plan.key_digits = key[key.size() - 4];
  plan.key_limbs = key[key.size() - 2];
  if (x[x.size() - 2] != plan.limbs || plan.key_digits < plan.digits || plan.key_limbs < plan.extended_limbs())
    return ffi::Error::InvalidArgument("fhejax key switch: limbs or digits do not fit");
  plan.extended.assign(moduli.begin(), moduli.end());
  plan.extended.insert(plan.extended.end(), special.begin(), special.end());
  for (const uint64_t q : plan.extended) plan.modulus.push_back(&ModulusFor(q));
  for (int64_t d = 0; d < plan.digits; ++d) {
    const int64_t last = std::min(plan.limbs, (d + 1) * digit_size);
    plan.mod_up.push_back(&BasisTableFor({moduli.begin() + d * digit_size, moduli.begin() + last}, plan.extended));
  }
  return ffi::Error::Success();
}

ffi::Error Prepare(const Dimensions& x, ffi::RemainingArgs operands, Moduli moduli, Moduli special, int64_t digit_size,
                   Plan& plan, Key& key) {
  size_t index = 0;
  if (auto error = TakeKey(operands, index, key); error.failure()) return error;
  if (index != operands.size()) return ffi::Error::InvalidArgument("fhejax key switch: takes one key");
  return MakePlan(x, key.shape, moduli, special, digit_size, plan);
}

namespace {

// The entries of x u64[*batch, limbs, N] and their keys, some at a time:
// each(first entry, entries, x row(limb, entry), keys).
template <typename Each>
ffi::Error ForSwitches(const Plan& plan, Input x, Key& key, Output out, const Each& each) {
  PrepareResult(out);
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto x_entry = batch.Entries(ShapeOf(x), 2);
  if (!key.Fits(batch) || (batch.count() && x_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax key switch: batch axes do not broadcast");
  ForEntries(batch.count(), plan.n, [&](int64_t first, int64_t entries) {
    each(
        first, entries,
        [&](int64_t limb, int64_t entry) {
          return x.typed_data() + (x_entry[first + entry] * plan.limbs + limb) * plan.n;
        },
        KeyBlocks(plan, key, first));
  });
  return ffi::Error::Success();
}

const auto kNoTerms = [](const Block&, Terms&) {};

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs + special, N]: the switched polynomial times P, before ModDown.
ffi::Error GadgetProductHandler(ffi::ThreadPool pool, Input x, ffi::RemainingArgs operands, Output out, Moduli moduli,
                                Moduli special, int64_t digit_size) {
  Plan plan;
  Key key;
  if (auto error = Prepare(ShapeOf(x), operands, moduli, special, digit_size, plan, key); error.failure()) return error;
  return ForSwitches(plan, x, key, out, [&](int64_t first, int64_t entries, const auto& row, const auto& keys) {
    const int64_t n = plan.n, group = DigitGroup(pool, plan, entries), y_words = entries * plan.limbs * n;
    const Scratch scratch(y_words + Digits::RaisedWords(plan, entries, group));
    const Digits digits{entries, group, scratch.get(), scratch.get() + y_words};
    Decompose(pool, plan, digits, row);
    MultiplyByKey(
        pool, plan, digits, true, 0, plan.extended_limbs(), keys,
        [&](int64_t entry, int64_t limb, auto& rows) { rows.push_back(row(limb, entry)); },
        [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, kNoTerms,
        [&](int64_t entry, int64_t half, int64_t limb) {
          return out->typed_data() + ((2 * (first + entry) + half) * plan.extended_limbs() + limb) * n;
        });
  });
}

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error KeySwitchHandler(ffi::ThreadPool pool, Input x, ffi::RemainingArgs operands, Output out, Moduli moduli,
                            Moduli special, int64_t digit_size) {
  Plan plan;
  Key key;
  if (auto error = Prepare(ShapeOf(x), operands, moduli, special, digit_size, plan, key); error.failure()) return error;
  return ForSwitches(plan, x, key, out, [&](int64_t first, int64_t entries, const auto& row, const auto& keys) {
    const SwitchMemory memory(pool, plan, entries, plan.limbs, false);
    Decompose(pool, plan, memory.digits, row);
    SwitchAndDivide<false>(
        pool, plan, memory.digits, true, memory.division, keys,
        [&](int64_t entry, int64_t limb, auto& rows) { rows.push_back(row(limb, entry)); },
        [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, kNoTerms,
        QuotientInto(plan, plan.limbs, out->typed_data() + 2 * first * plan.limbs * plan.n));
  });
}

// digits: u64[*batch, digits, limbs, N], key: u64[*batch, digits, 2, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error InnerProductHandler(ffi::ThreadPool pool, Input digits, Input key, Output out, Moduli moduli) {
  const Dimensions shape = ShapeOf(digits), key_shape = ShapeOf(key);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 3 || key_shape.size() < 4 || shape[shape.size() - 2] != limbs ||
      key_shape[key_shape.size() - 2] != limbs || key_shape[key_shape.size() - 4] != shape[shape.size() - 3])
    return ffi::Error::InvalidArgument("fhejax_inner_product: operand shapes do not fit");
  PrepareResult(out);
  const int64_t n = shape.back(), terms = shape[shape.size() - 3];
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto digit_entry = batch.Entries(shape, 3), key_entry = batch.Entries(key_shape, 4);
  if (batch.count() && (digit_entry.empty() || key_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax_inner_product: batch axes do not broadcast");
  ParallelFor(pool, batch.count() * 2 * limbs, [&](int64_t task) {
    const int64_t entry = task / (2 * limbs), half = task / limbs % 2, limb = task % limbs;
    const auto a = RowsAt(digits.typed_data() + (digit_entry[entry] * terms * limbs + limb) * n, terms, limbs * n, 0);
    const int64_t first = (key_entry[entry] * terms * 2 + half) * limbs + limb;
    const auto b = RowsAt(key.typed_data() + first * n, terms, 2 * limbs * n, 0);
    ActiveKernels().inner_product(a.data(), b.data(), terms, out->typed_data() + task * n, n,
                                  ModulusFor(moduli.begin()[limb]));
  });
  return ffi::Error::Success();
}

#define FHEJAX_KEY_SWITCH            \
  ffi::Ffi::Bind()                   \
      .Ctx<ffi::ThreadPool>()        \
      .Arg<Input>()                  \
      .RemainingArgs()               \
      .Ret<ffi::Buffer<ffi::U64>>()  \
      .Attr<Moduli>("moduli")        \
      .Attr<Moduli>("special")       \
      .Attr<int64_t>("digit_size")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxGadgetProduct, GadgetProductHandler, FHEJAX_KEY_SWITCH);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxKeySwitch, KeySwitchHandler, FHEJAX_KEY_SWITCH);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxInnerProduct, InnerProductHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli"));

}  // namespace fhejax
