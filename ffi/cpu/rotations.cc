// Automorphisms of a ciphertext with their key switches, fused; ModUp is done once for all of them.

#include "cpu/automorphism.h"
#include "cpu/handlers.h"
#include "cpu/key_switch.h"

namespace fhejax {
namespace {

struct Rotation {
  Key key;
  Output out;
  Plan plan;
  const std::vector<uint32_t>* source;  // of the automorphism
};

ffi::Error MakeRotations(Input c, ffi::RemainingArgs keys, ffi::RemainingRets outs, Moduli moduli, Moduli special,
                         Moduli elements, int64_t digit_size, std::vector<Rotation>& rotations) {
  const size_t count = elements.size();
  size_t index = 0;
  for (size_t r = 0; r < count && r < outs.size(); ++r) {
    auto out = outs.get<ffi::Buffer<ffi::U64>>(r);
    if (out.has_error()) return out.error();
    Key key;
    Plan plan;
    if (auto error = TakeKey(keys, index, key); error.failure()) return error;
    if (auto error = MakePlan(ShapeOf(c), key.shape, moduli, special, digit_size, plan); error.failure()) return error;
    PrepareResult(*out);
    if (!key.Fits(BatchOf(ShapeOf(**out), 3)))
      return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: batch axes do not broadcast");
    const auto& source = AutomorphismSource(plan.n, static_cast<int64_t>(elements.begin()[r]));
    rotations.push_back({std::move(key), *out, std::move(plan), &source});
  }
  if (index != keys.size() || outs.size() != count || count == 0)
    return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: one key and one result for each element");
  return ffi::Error::Success();
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
  if (batch.count() && c_entry.empty())
    return ffi::Error::InvalidArgument("fhejax_hoisted_rotations: batch axes do not broadcast");

  const int64_t n = plan.n, words = 2 * plan.limbs * n;
  ForEntries(batch.count(), n, [&](int64_t first, int64_t entries) {
    // Several rotations share the raised digits of all limbs; a single one needs a group's at a time.
    const SwitchMemory memory(pool, plan, entries, plan.limbs, rotations.size() > 1);
    const auto ciphertext = [&](int64_t entry) { return c.typed_data() + c_entry[first + entry] * words; };
    const auto row = [&](int64_t limb, int64_t entry) { return ciphertext(entry) + (plan.limbs + limb) * n; };
    Decompose(pool, plan, memory.digits, row);
    for (Rotation& rotation : rotations) {
      const bool raise = &rotation == &rotations[0];
      SwitchAndDivide<true>(
          pool, rotation.plan, memory.digits, raise, memory.division, KeyBlocks(rotation.plan, rotation.key, first),
          [&](int64_t entry, int64_t limb, auto& rows) {
            rows.insert(rows.end(), {row(limb, entry), ciphertext(entry) + limb * n});
          },
          [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, [](const Block&, Terms&) {},
          // The automorphism of (c0 + u0 / P, u1 / P).
          [&](const Block& at, uint64_t* const* u, uint64_t* const* lift, Factor w) {
            const uint64_t* const c0 = ciphertext(at.entry) + at.limb * n;
            uint64_t* const out = rotation.out->typed_data() + (first + at.entry) * words + at.limb * n;
            const Modulus& q = *plan.modulus[at.limb];
            const uint32_t* const source = rotation.source->data();
            ActiveKernels().subtract_multiply_permute(u[0], lift[0], w, c0, source, out, n, q);
            ActiveKernels().subtract_multiply_permute(u[1], lift[1], w, nullptr, source, out + plan.limbs * n, n, q);
          });
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
