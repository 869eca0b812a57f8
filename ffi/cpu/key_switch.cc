// The handlers of key switching: with ModDown and without it, and of the inner product alone.

#include "cpu/key_switch.h"

#include "cpu/handlers.h"

namespace fhejax {

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
  plan.moduli.assign(moduli.begin(), moduli.end());
  plan.special_moduli.assign(special.begin(), special.end());
  plan.extended = plan.moduli;
  plan.extended.insert(plan.extended.end(), special.begin(), special.end());
  for (int64_t d = 0; d < plan.digits; ++d) {
    const int64_t last = std::min(plan.limbs, (d + 1) * digit_size);
    plan.mod_up.push_back(&BasisTableFor(
        {plan.moduli.begin() + d * digit_size, plan.moduli.begin() + last}, plan.extended));
  }
  return ffi::Error::Success();
}

namespace {

// The product of x u64[*batch, limbs, N] and key u64[*batch, digits, 2, limbs(QP), N], some entries at a time: into
// product(first entry)[entries, 2, extended limbs, N], then finish(first entry, entries, product).
template <typename Product, typename Finish>
ffi::Error MultiplyByKeys(ffi::ThreadPool& pool, const Plan& plan, Input x, Input key, Output out,
                          const Product& product, const Finish& finish) {
  PrepareResult(out);
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto x_entry = batch.Entries(ShapeOf(x), 2), key_entry = batch.Entries(ShapeOf(key), 4);
  if (batch.count() && (x_entry.empty() || key_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax key switch: batch axes do not broadcast");
  ForEntries(batch.count(), plan.n, [&](int64_t first, int64_t entries) {
    const int64_t n = plan.n, group = DigitGroup(pool, plan, entries), y_words = entries * plan.limbs * n;
    const Scratch scratch(y_words + Digits::RaisedRows(plan, entries, group) * n);
    const Digits digits{entries, group, scratch.get(), scratch.get() + y_words};
    const auto row = [&](int64_t limb, int64_t entry) {
      return x.typed_data() + (x_entry[first + entry] * plan.limbs + limb) * n;
    };
    uint64_t* const to = product(first);
    Decompose(pool, plan, digits, row);
    MultiplyByKey(
        pool, plan, digits,
        [&](int64_t entry) { return key.typed_data() + key_entry[first + entry] * plan.key_words(); },
        [&](int64_t entry, int64_t limb, int64_t offset, int64_t) { return row(limb, entry) + offset; },
        [](int64_t, int64_t, int64_t, int64_t, Terms&) {},
        [&](int64_t entry, int64_t half) { return to + (2 * entry + half) * plan.extended_limbs() * n; });
    finish(first, entries, to);
  });
  return ffi::Error::Success();
}

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs + special, N]: the switched polynomial times P, before ModDown.
ffi::Error GadgetProductHandler(ffi::ThreadPool pool, Input x, Input key, Output out, Moduli moduli, Moduli special,
                                int64_t digit_size) {
  Plan plan;
  if (auto error = MakePlan(ShapeOf(x), ShapeOf(key), moduli, special, digit_size, plan); error.failure()) return error;
  return MultiplyByKeys(
      pool, plan, x, key, out,
      [&](int64_t first) { return out->typed_data() + first * 2 * plan.extended_limbs() * plan.n; },
      [](int64_t, int64_t, uint64_t*) {});
}

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error KeySwitchHandler(ffi::ThreadPool pool, Input x, Input key, Output out, Moduli moduli, Moduli special,
                            int64_t digit_size) {
  Plan plan;
  if (auto error = MakePlan(ShapeOf(x), ShapeOf(key), moduli, special, digit_size, plan); error.failure()) return error;
  const int64_t n = plan.n, extended = plan.extended_limbs();
  const Scratch product(EntriesTogether(n) * 2 * extended * n);
  const auto finish = [&](int64_t first, int64_t entries, uint64_t* u) {
    ModDownRows(
        pool, n, 2 * entries, plan.moduli, plan.special_moduli,
        [&](int64_t i, int64_t limb) { return u + (i * extended + limb) * n; },
        [&](int64_t i) { return u + (i * extended + plan.limbs) * n; },
        [&](int64_t i, int64_t limb) { return out->typed_data() + ((2 * first + i) * plan.limbs + limb) * n; },
        [&](int64_t i, int64_t limb, uint64_t* row, Factor w) {
          ActiveKernels().subtract_multiply(u + (i * extended + limb) * n, row, w, row, n,
                                            ModulusFor(plan.moduli[limb]));
        });
  };
  return MultiplyByKeys(pool, plan, x, key, out, [&](int64_t) { return product.get(); }, finish);
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
      .Arg<Input>()                  \
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
