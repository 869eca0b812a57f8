// Automorphisms of a ciphertext with their key switches, fused; ModUp is done once for all of them.

#include "cpu/automorphism.h"
#include "cpu/handlers.h"
#include "cpu/key_switch.h"

namespace fhejax {
namespace {

struct Rotation {
  Key key;
  uint64_t* out;
  const uint32_t* source;  // of the automorphism
};

void HoistedRotations(ffi::ThreadPool& pool, const handlers::HoistedRotations& in) {
  const Plan plan(in);
  const Shape batch = in.out[0].batch();
  std::vector<Rotation> rotations;
  for (int64_t r = 0; r < in.rotations; ++r) {
    PrepareResult(in.out[r]);
    const auto& source = AutomorphismSource(plan.n, static_cast<int64_t>(in.elements[r]));
    rotations.push_back({Key(in.keys[r], batch), in.out[r].data, source.data()});
  }
  const auto c_entry = EntriesOf(batch, in.ciphertext);
  const int64_t n = plan.n, words = 2 * plan.limbs * n;
  ForEntries(in.batch, n, [&](int64_t first, int64_t entries) {
    // Several rotations share the raised digits of all limbs; a single one needs a group's at a time.
    const SwitchMemory memory(pool, plan, entries, plan.limbs, rotations.size() > 1);
    const auto ciphertext = [&](int64_t entry) { return in.ciphertext.data + c_entry[first + entry] * words; };
    const auto row = [&](int64_t limb, int64_t entry) { return ciphertext(entry) + (plan.limbs + limb) * n; };
    Decompose(pool, plan, memory.digits, row);
    for (const Rotation& rotation : rotations) {
      const bool raise = &rotation == &rotations[0];
      SwitchAndDivide<true>(
          pool, plan, memory.digits, raise, memory.division, KeyBlocks(plan, rotation.key, first),
          [&](int64_t entry, int64_t limb, auto& rows) {
            rows.insert(rows.end(), {row(limb, entry), ciphertext(entry) + limb * n});
          },
          [&](const Block& at) { return row(at.limb, at.entry) + at.offset; }, [](const Block&, Terms&) {},
          // The automorphism of (c0 + u0 / P, u1 / P).
          [&](const Block& at, uint64_t* const* u, uint64_t* const* lift, Factor w) {
            const uint64_t* const c0 = ciphertext(at.entry) + at.limb * n;
            uint64_t* const out = rotation.out + (first + at.entry) * words + at.limb * n;
            const Modulus& q = *plan.modulus[at.limb];
            ActiveKernels().subtract_multiply_permute(u[0], lift[0], w, c0, rotation.source, out, n, q);
            ActiveKernels().subtract_multiply_permute(u[1], lift[1], w, nullptr, rotation.source, out + plan.limbs * n, n, q);
          });
    }
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(HoistedRotations, HoistedRotations);

}  // namespace fhejax
