// Automorphisms of a ciphertext with their key switches, fused; ModUp is done once for all of them.

#include "cpu/automorphism.h"
#include "cpu/handlers.h"
#include "cpu/key_switch.h"

namespace fhejax {
namespace {

struct Rotation {
  Input key;
  Output out;
  Plan plan;
  std::vector<int64_t> key_entry;
  const std::vector<uint32_t>* source;  // of the automorphism
};

ffi::Error MakeRotations(Input c, ffi::RemainingArgs keys, ffi::RemainingRets outs, Moduli moduli, Moduli special,
                         Moduli elements, int64_t digit_size, std::vector<Rotation>& rotations) {
  const size_t count = elements.size();
  if (keys.size() != count || outs.size() != count || count == 0)
    return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: one key and one result for each element");
  for (size_t r = 0; r < count; ++r) {
    auto key = keys.get<Input>(r);
    auto out = outs.get<ffi::Buffer<ffi::U64>>(r);
    if (key.has_error()) return key.error();
    if (out.has_error()) return out.error();
    Plan plan;
    if (auto error = MakePlan(ShapeOf(c), ShapeOf(*key), moduli, special, digit_size, plan); error.failure())
      return error;
    PrepareResult(*out);
    auto key_entry = BatchOf(ShapeOf(**out), 3).Entries(ShapeOf(*key), 4);
    const auto& source = AutomorphismSource(plan.n, static_cast<int64_t>(elements.begin()[r]));
    rotations.push_back({*key, *out, std::move(plan), std::move(key_entry), &source});
  }
  return ffi::Error::Success();
}

// (c0 + u0/P, u1/P) with the automorphism applied, for the product u [entries, 2, extended limbs, N]; c(entry) are the
// ciphertexts, out(entry) the results, `lift` has room for 2 entries * group rows.
template <typename Ciphertext, typename Result>
void FinishRotation(ffi::ThreadPool& pool, const Plan& plan, int64_t entries, int64_t group, uint64_t* u,
                    uint64_t* lift, const uint32_t* source, const Ciphertext& c, const Result& out) {
  const int64_t n = plan.n, extended = plan.extended_limbs();
  ModDownRows(
      pool, n, 2 * entries, plan.moduli, plan.special_moduli,
      [&](int64_t i, int64_t limb) { return u + (i * extended + limb) * n; },
      [&](int64_t i) { return u + (i * extended + plan.limbs) * n; },
      [&](int64_t i, int64_t limb) { return lift + (i * group + limb % group) * n; },
      [&](int64_t i, int64_t limb, uint64_t* row, Factor w) {
        const int64_t entry = i / 2, half = i % 2;
        const uint64_t* const c0 = half ? nullptr : c(entry) + limb * n;
        ActiveKernels().subtract_multiply_permute(u + (i * extended + limb) * n, row, w, c0, source,
                                                  out(entry) + (half * plan.limbs + limb) * n, n,
                                                  ModulusFor(plan.moduli[limb]));
      });
}

// Operands: c u64[*batch, 2, limbs, N], then one key for each element; one result like c for each.
ffi::Error HoistedRotationsHandler(ffi::ThreadPool pool, Input c, ffi::RemainingArgs keys, ffi::RemainingRets outs,
                                   Moduli moduli, Moduli special, Moduli elements, int64_t digit_size) {
  std::vector<Rotation> rotations;
  if (auto error = MakeRotations(c, keys, outs, moduli, special, elements, digit_size, rotations); error.failure())
    return error;
  const Plan& plan = rotations[0].plan;
  const Batch batch = BatchOf(ShapeOf(*rotations[0].out), 3);
  const auto c_entry = batch.Entries(ShapeOf(c), 3);
  const bool fit = !c_entry.empty() && std::none_of(rotations.begin(), rotations.end(),
                                                    [](const Rotation& r) { return r.key_entry.empty(); });
  if (batch.count() && !fit) return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: batch axes do not broadcast");

  const int64_t n = plan.n, extended = plan.extended_limbs(), words = 2 * plan.limbs * n;
  ForEntries(batch.count(), n, [&](int64_t first, int64_t entries) {
    // Several rotations share the raised digits of all limbs; a single one needs a group's at a time.
    const int64_t step = DigitGroup(pool, plan, entries), group = rotations.size() > 1 ? extended : step;
    const int64_t lift_group = GroupSize(pool, plan.limbs, 2 * entries, n);
    const int64_t y_words = entries * plan.limbs * n, raised_words = Digits::RaisedRows(plan, entries, group) * n;
    const int64_t product_words = entries * 2 * extended * n;
    const Scratch scratch(y_words + raised_words + product_words + 2 * entries * lift_group * n);
    const Digits digits{entries, group, scratch.get(), scratch.get() + y_words};
    uint64_t *const product = digits.raised + raised_words, *const lift = product + product_words;
    const auto ciphertext = [&](int64_t entry) { return c.typed_data() + c_entry[first + entry] * words; };
    const auto row = [&](int64_t limb, int64_t entry) { return ciphertext(entry) + (plan.limbs + limb) * n; };
    Decompose(pool, plan, digits, row);
    for (size_t r = 0; r < rotations.size(); ++r) {
      Rotation& rotation = rotations[r];
      for (int64_t begin = 0; begin < extended; begin += r == 0 ? step : extended) {
        const int64_t end = std::min(extended, begin + (r == 0 ? step : extended));
        if (r == 0) Raise(pool, plan, digits, begin, end);
        ParallelFor(pool, end - begin, [&](int64_t task) {
          const int64_t limb = begin + task;
          if (r == 0) TransformLimb(plan, digits, limb);
          MultiplyLimb(
              rotation.plan, digits, limb,
              [&](int64_t entry) {
                return rotation.key.typed_data() + rotation.key_entry[first + entry] * rotation.plan.key_words();
              },
              [&](int64_t entry, int64_t own_limb, int64_t offset, int64_t) { return row(own_limb, entry) + offset; },
              [](int64_t, int64_t, int64_t, int64_t, Terms&) {},
              [&](int64_t entry, int64_t half) { return product + (2 * entry + half) * extended * n; });
        });
      }
      FinishRotation(pool, plan, entries, lift_group, product, lift, rotation.source->data(), ciphertext,
                     [&](int64_t entry) { return rotation.out->typed_data() + (first + entry) * words; });
    }
  });
  return ffi::Error::Success();
}

}  // namespace

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

}  // namespace fhejax
