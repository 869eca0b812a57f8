// Hybrid key switching, fused: inverse NTT, ModUp, inner product with the key, ModDown.

#include <algorithm>
#include <vector>

#include "cpu/automorphism.h"
#include "cpu/basis.h"
#include "cpu/handlers.h"

namespace fhejax {
namespace {

// What a key switch of a polynomial with moduli q_0..q_l needs to know. Extended limbs are q_0..q_l, p_0..p_(k-1).
struct Plan {
  int64_t n, limbs, special, digit_size, digits, key_digits, key_limbs;
  std::vector<uint64_t> moduli, special_moduli, extended;
  std::vector<const BasisTable*> mod_up;  // one a digit, to all extended limbs

  int64_t extended_limbs() const { return limbs + special; }
  int64_t key_limb(int64_t limb) const { return limb < limbs ? limb : key_limbs - special + limb - limbs; }
  int64_t digit_of(int64_t limb) const { return limb / digit_size; }
  int64_t digit_limbs(int64_t digit) const { return std::min(digit_size, limbs - digit * digit_size); }
};

// key: u64[*batch, digits, 2, limbs(QP), N].
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
    const auto first = plan.moduli.begin() + d * digit_size;
    plan.mod_up.push_back(&BasisTableFor({first, first + plan.digit_limbs(d)}, plan.extended));
  }
  return ffi::Error::Success();
}

// The digits of one polynomial, in coefficient form: what ModUp starts from.
struct Digits {
  const uint64_t* x;  // limbs rows, NTT form
  Scratch y, v;       // [limbs, N], [digits, N]
};

Digits Decompose(ffi::ThreadPool& pool, const Plan& plan, const uint64_t* x) {
  const Kernels& kernels = ActiveKernels();
  const int64_t n = plan.n, blocks = (n + kBlock - 1) / kBlock;
  Digits digits{x, MakeScratch(plan.limbs * n), MakeScratch(plan.digits * n)};
  ParallelFor(pool, plan.limbs, [&](int64_t limb) {
    uint64_t* const row = digits.y.get() + limb * n;
    std::copy_n(x + limb * n, n, row);
    kernels.inverse_ntt(row, NttTableFor(n, plan.moduli[limb]));
    const SourceLimb& source = plan.mod_up[plan.digit_of(limb)]->source[limb % plan.digit_size];
    kernels.multiply_factor(row, source.inverse, row, n, ModulusFor(plan.moduli[limb]));
  });
  ParallelFor(pool, plan.digits * blocks, [&](int64_t task) {
    const int64_t digit = task / blocks, first = task % blocks * kBlock;
    const auto rows = RowsAt(digits.y.get() + digit * plan.digit_size * n, plan.digit_limbs(digit), n, first);
    kernels.overflow(rows.data(), plan.mod_up[digit]->source.data(), plan.digit_limbs(digit),
                     digits.v.get() + digit * n + first, std::min(kBlock, n - first));
  });
  return digits;
}

// Pointers to all digits modulo one extended limb, in NTT form; `store` holds those that ModUp computes.
std::vector<const uint64_t*> RaiseLimb(const Plan& plan, const Digits& digits, int64_t limb, uint64_t* store) {
  const Kernels& kernels = ActiveKernels();
  const int64_t n = plan.n;
  const uint64_t q = plan.extended[limb];
  std::vector<const uint64_t*> raised(plan.digits);
  for (int64_t d = 0; d < plan.digits; ++d) {
    if (limb < plan.limbs && plan.digit_of(limb) == d) {
      raised[d] = digits.x + limb * n;
      continue;
    }
    uint64_t* const row = store + d * n;
    const auto y = RowsAt(digits.y.get() + d * plan.digit_size * n, plan.digit_limbs(d), n, 0);
    kernels.combine(y.data(), plan.mod_up[d]->factors[limb].data(), plan.digit_limbs(d), digits.v.get() + d * n,
                    plan.mod_up[d]->last[limb], row, n, ModulusFor(q), plan.mod_up[d]->narrow);
    kernels.forward_ntt(row, NttTableFor(n, q));
    raised[d] = row;
  }
  return raised;
}

// out[2, extended limbs, N] = sum over digits of digit * key; key points at one [digits, 2, limbs(QP), N].
void MultiplyLimb(const Plan& plan, const std::vector<const uint64_t*>& raised, int64_t limb, const uint64_t* key,
                  uint64_t* out) {
  for (int64_t half = 0; half < 2; ++half) {
    const int64_t first = half * plan.key_limbs + plan.key_limb(limb);
    const auto rows = RowsAt(key + first * plan.n, plan.digits, 2 * plan.key_limbs * plan.n, 0);
    ActiveKernels().inner_product(raised.data(), rows.data(), plan.digits,
                                  out + (half * plan.extended_limbs() + limb) * plan.n, plan.n,
                                  ModulusFor(plan.extended[limb]));
  }
}

void MultiplyByKey(ffi::ThreadPool& pool, const Plan& plan, const Digits& digits, const uint64_t* key, uint64_t* out) {
  ParallelFor(pool, plan.extended_limbs(), [&](int64_t limb) {
    const auto raised = RaiseLimb(plan, digits, limb, TaskScratch(plan.digits * plan.n));
    MultiplyLimb(plan, raised, limb, key, out);
  });
}

int64_t KeyWords(const Plan& plan) { return plan.key_digits * 2 * plan.key_limbs * plan.n; }

// Calls each(plan, digits of x, key, entry) for each entry of the batch of x u64[*batch, limbs, N] and
// key u64[*batch, digits, 2, limbs(QP), N].
template <typename Each>
ffi::Error ForEachEntry(ffi::ThreadPool& pool, Input x, Input key, Output out, Moduli moduli, Moduli special,
                        int64_t digit_size, const Each& each) {
  Plan plan;
  if (auto error = MakePlan(ShapeOf(x), ShapeOf(key), moduli, special, digit_size, plan); error.failure()) return error;
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto x_entry = batch.Entries(ShapeOf(x), 2), key_entry = batch.Entries(ShapeOf(key), 4);
  if (batch.count() && (x_entry.empty() || key_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax key switch: batch axes do not broadcast");
  for (int64_t entry = 0; entry < batch.count(); ++entry) {
    const Digits digits = Decompose(pool, plan, x.typed_data() + x_entry[entry] * plan.limbs * plan.n);
    each(plan, digits, key.typed_data() + key_entry[entry] * KeyWords(plan), entry);
  }
  return ffi::Error::Success();
}

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs + special, N]: the switched polynomial times P, before ModDown.
ffi::Error GadgetProductHandler(ffi::ThreadPool pool, Input x, Input key, Output out, Moduli moduli, Moduli special,
                                int64_t digit_size) {
  const auto each = [&](const Plan& plan, const Digits& digits, const uint64_t* one_key, int64_t entry) {
    MultiplyByKey(pool, plan, digits, one_key, out->typed_data() + entry * 2 * plan.extended_limbs() * plan.n);
  };
  return ForEachEntry(pool, x, key, out, moduli, special, digit_size, each);
}

// x: u64[*batch, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error KeySwitchHandler(ffi::ThreadPool pool, Input x, Input key, Output out, Moduli moduli, Moduli special,
                            int64_t digit_size) {
  const auto each = [&](const Plan& plan, const Digits& digits, const uint64_t* one_key, int64_t entry) {
    const int64_t n = plan.n;
    const Scratch product = MakeScratch(2 * plan.extended_limbs() * n);
    MultiplyByKey(pool, plan, digits, one_key, product.get());
    ModDownRows(
        pool, n, 2, plan.moduli, plan.special_moduli,
        [&](int64_t poly) { return product.get() + poly * plan.extended_limbs() * n; },
        [&](int64_t poly, int64_t limb, uint64_t*) {
          return out->typed_data() + ((entry * 2 + poly) * plan.limbs + limb) * n;
        },
        [](int64_t, int64_t, uint64_t*) {});
  };
  return ForEachEntry(pool, x, key, out, moduli, special, digit_size, each);
}

// The rows of x0, x1, y0, y1 of one limb.
struct Factors {
  const uint64_t *x0, *x1, *y0, *y1;
};

// product += P (x0 y0, x0 y1 + x1 y0) modulo q_0..q_l: what the key switch of x1 y1, still times P, is added to.
void AddLifted(const Plan& plan, int64_t limb, Factors f, uint64_t* product) {
  const Kernels& kernels = ActiveKernels();
  const int64_t n = plan.n;
  const Modulus& q = ModulusFor(plan.moduli[limb]);
  uint64_t lift = 1;
  for (const uint64_t p : plan.special_moduli) lift = Multiply(lift, p % q.value, q);
  uint64_t *const first = product + limb * n, *const second = first + plan.extended_limbs() * n;
  uint64_t* const d = TaskScratch(n);
  kernels.multiply(f.x0, f.y0, d, n, q);
  kernels.multiply_factor(d, MakeFactor(lift, q.value), d, n, q);
  kernels.add(first, d, first, n, q);
  kernels.multiply(f.x0, f.y1, d, n, q);
  kernels.multiply_add(f.x1, f.y0, d, d, n, q);
  kernels.multiply_factor(d, MakeFactor(lift, q.value), d, n, q);
  kernels.add(second, d, second, n, q);
}

// x, y: u64[*batch, 2, limbs, N] -> u64[*batch, 2, limbs - 1, N]: tensor, relinearise, rescale.
ffi::Error MultiplyCiphertextsHandler(ffi::ThreadPool pool, Input x, Input y, Input key, Output out, Moduli moduli,
                                      Moduli special, int64_t digit_size) {
  Plan plan;
  if (auto error = MakePlan(ShapeOf(x), ShapeOf(key), moduli, special, digit_size, plan); error.failure()) return error;
  const Batch batch = BatchOf(ShapeOf(*out), 3);
  const auto x_entry = batch.Entries(ShapeOf(x), 3), y_entry = batch.Entries(ShapeOf(y), 3);
  const auto key_entry = batch.Entries(ShapeOf(key), 4);
  if (batch.count() && (x_entry.empty() || y_entry.empty() || key_entry.empty()))
    return ffi::Error::InvalidArgument("fhejax_multiply_ciphertexts: batch axes do not broadcast");
  if (plan.limbs < 2) return ffi::Error::InvalidArgument("fhejax_multiply_ciphertexts: no modulus would be left");
  const int64_t n = plan.n, row = plan.limbs * n, kept = plan.limbs - 1;
  std::vector<uint64_t> keep = plan.moduli, drop = {plan.moduli.back()};
  keep.pop_back();
  drop.insert(drop.end(), special.begin(), special.end());
  const Scratch d2 = MakeScratch(row), product = MakeScratch(2 * plan.extended_limbs() * n);
  for (int64_t entry = 0; entry < batch.count(); ++entry) {
    const uint64_t *const a = x.typed_data() + x_entry[entry] * 2 * row, *const b = y.typed_data() + y_entry[entry] * 2 * row;
    ParallelFor(pool, plan.limbs, [&](int64_t limb) {
      ActiveKernels().multiply(a + row + limb * n, b + row + limb * n, d2.get() + limb * n, n,
                               ModulusFor(plan.moduli[limb]));
    });
    const Digits digits = Decompose(pool, plan, d2.get());
    MultiplyByKey(pool, plan, digits, key.typed_data() + key_entry[entry] * KeyWords(plan), product.get());
    ParallelFor(pool, plan.limbs, [&](int64_t limb) {
      const int64_t at = limb * n;
      AddLifted(plan, limb, {a + at, a + row + at, b + at, b + row + at}, product.get());
    });
    ModDownRows(
        pool, n, 2, keep, drop, [&](int64_t poly) { return product.get() + poly * plan.extended_limbs() * n; },
        [&](int64_t poly, int64_t limb, uint64_t*) { return out->typed_data() + ((entry * 2 + poly) * kept + limb) * n; },
        [](int64_t, int64_t, uint64_t*) {});
  }
  return ffi::Error::Success();
}

// One rotation of one ciphertext c = (c0, c1): the automorphism of (c0 + product/P first half, second half).
void FinishRotation(ffi::ThreadPool& pool, const Plan& plan, const uint64_t* c, const uint64_t* product,
                    int64_t element, uint64_t* out) {
  const int64_t n = plan.n;
  const auto& source = AutomorphismSource(n, element);
  ModDownRows(
      pool, n, 2, plan.moduli, plan.special_moduli,
      [&](int64_t poly) { return product + poly * plan.extended_limbs() * n; },
      [&](int64_t, int64_t, uint64_t* scratch) { return scratch; },
      [&](int64_t poly, int64_t limb, uint64_t* row) {
        if (poly == 0) ActiveKernels().add(row, c + limb * n, row, n, ModulusFor(plan.moduli[limb]));
        uint64_t* const destination = out + (poly * plan.limbs + limb) * n;
        for (int64_t i = 0; i < n; ++i) destination[i] = row[source[i]];
      });
}

// Operands: c u64[*batch, 2, limbs, N], then one key for each element; one result like c for each.
ffi::Error HoistedRotationsHandler(ffi::ThreadPool pool, Input c, ffi::RemainingArgs keys, ffi::RemainingRets outs,
                                   Moduli moduli, Moduli special, Moduli elements, int64_t digit_size) {
  const size_t count = elements.size();
  if (keys.size() != count || outs.size() != count || count == 0)
    return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: one key and one result for each element");
  std::vector<Input> key;
  std::vector<Output> out;
  for (size_t r = 0; r < count; ++r) {
    auto one = keys.get<Input>(r);
    auto result = outs.get<ffi::Buffer<ffi::U64>>(r);
    if (one.has_error()) return one.error();
    if (result.has_error()) return result.error();
    key.push_back(*one);
    out.push_back(*result);
  }
  std::vector<Plan> plans(count);
  for (size_t r = 0; r < count; ++r)
    if (auto error = MakePlan(ShapeOf(c), ShapeOf(key[r]), moduli, special, digit_size, plans[r]); error.failure())
      return error;
  const Plan& plan = plans[0];
  const Batch batch = BatchOf(ShapeOf(*out[0]), 3);
  const auto c_entry = batch.Entries(ShapeOf(c), 3);
  std::vector<std::vector<int64_t>> key_entry;
  for (size_t r = 0; r < count; ++r) key_entry.push_back(batch.Entries(ShapeOf(key[r]), 4));
  const bool fit = !c_entry.empty() && std::none_of(key_entry.begin(), key_entry.end(), [](const auto& e) { return e.empty(); });
  if (batch.count() && !fit) return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: batch axes do not broadcast");

  const int64_t n = plan.n, words = 2 * plan.limbs * n;
  const Scratch product = MakeScratch(2 * plan.extended_limbs() * n);
  const Scratch store = MakeScratch(count > 1 ? plan.extended_limbs() * plan.digits * n : 0);
  for (int64_t entry = 0; entry < batch.count(); ++entry) {
    const uint64_t* const ciphertext = c.typed_data() + c_entry[entry] * words;
    const Digits digits = Decompose(pool, plan, ciphertext + plan.limbs * n);
    std::vector<std::vector<const uint64_t*>> raised(plan.extended_limbs());
    for (size_t r = 0; r < count; ++r) {
      const uint64_t* const one_key = key[r].typed_data() + key_entry[r][entry] * KeyWords(plans[r]);
      ParallelFor(pool, plan.extended_limbs(), [&](int64_t limb) {
        if (r == 0) {  // ModUp once, for all rotations
          uint64_t* const rows = count > 1 ? store.get() + limb * plan.digits * n : TaskScratch(plan.digits * n);
          raised[limb] = RaiseLimb(plan, digits, limb, rows);
        }
        MultiplyLimb(plans[r], raised[limb], limb, one_key, product.get());
      });
      FinishRotation(pool, plan, ciphertext, product.get(), static_cast<int64_t>(elements.begin()[r]),
                     out[r]->typed_data() + entry * words);
    }
  }
  return ffi::Error::Success();
}

// digits: u64[*batch, digits, limbs, N], key: u64[*batch, digits, 2, limbs, N] -> u64[*batch, 2, limbs, N].
ffi::Error InnerProductHandler(ffi::ThreadPool pool, Input digits, Input key, Output out, Moduli moduli) {
  const Dimensions shape = ShapeOf(digits), key_shape = ShapeOf(key);
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (shape.size() < 3 || key_shape.size() < 4 || shape[shape.size() - 2] != limbs ||
      key_shape[key_shape.size() - 2] != limbs || key_shape[key_shape.size() - 4] != shape[shape.size() - 3])
    return ffi::Error::InvalidArgument("fhejax_inner_product: operand shapes do not fit");
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
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxHoistedRotations, HoistedRotationsHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attr<Moduli>("moduli")
                                  .Attr<Moduli>("special")
                                  .Attr<Moduli>("elements")
                                  .Attr<int64_t>("digit_size"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxInnerProduct, InnerProductHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli"));

}  // namespace fhejax
