// Switching keys as whole operations: see fhejax/primitives/key_generation.py.

#include <algorithm>
#include <vector>

#include "cpu/handlers.h"
#include "cpu/parallel.h"
#include "cpu/sampling.h"
#include "cpu/scratch.h"

namespace fhejax {
namespace {

// What the key of one entry is made of. Secrets may have more limbs than the key; those of the special primes are last.
struct Generation {
  int64_t n, limbs, special, digits, digit_size, halves;
  std::vector<uint64_t> extended;  // q_0..q_l, p_0..p_(k-1)
  const uint32_t *mask_seed, *error_seed;
  const uint64_t *source, *target;
  int64_t source_limbs, target_limbs;
  uint64_t* out;

  int64_t all() const { return limbs + special; }
  const uint64_t* Limb(const uint64_t* secret, int64_t have, int64_t limb) const {
    return secret + (limb < limbs ? limb : have - special + limb - limbs) * n;
  }
  uint64_t* Row(int64_t digit, int64_t half, int64_t limb) const {
    return out + ((digit * halves + half) * all() + limb) * n;
  }
};

// The errors of all digits, n each.
std::vector<int16_t> Errors(ffi::ThreadPool& pool, const Generation& g, Moduli thresholds) {
  std::vector<int16_t> errors(g.digits * g.n);
  const int64_t pieces = (g.n + kPiece - 1) / kPiece;
  ParallelFor(pool, g.digits * pieces, [&](int64_t task) {
    const int64_t digit = task / pieces, first = task % pieces * kPiece;
    DrawGaussian({g.error_seed, {kGaussian, static_cast<uint32_t>(digit), 0}}, first, std::min(kPiece, g.n - first),
                 thresholds, errors.data() + digit * g.n + first);
  });
  return errors;
}

// e - a target of every digit, and P source in the digit that the limb belongs to.
void MakeLimb(const Generation& g, const std::vector<int16_t>& errors, int64_t limb) {
  const Kernels& kernels = ActiveKernels();
  const uint64_t prime = g.extended[limb];
  const NttTable& table = NttTableFor(g.n, prime);
  const Modulus& q = table.modulus;
  const CodingModulus& coding = CodingModulusFor(prime);
  std::vector<uint64_t*> rows;
  for (int64_t d = 0; d < g.digits; ++d) {
    rows.push_back(g.Row(d, 0, limb));
    ActiveCoding().spread(errors.data() + d * g.n, g.n, prime, rows.back());
  }
  kernels.forward_ntt(rows.data(), rows.data(), g.digits, table);
  uint64_t* const minus = TaskScratch(g.n + kPiece);
  uint64_t* const piece = minus + g.n;
  kernels.multiply_factor(g.Limb(g.target, g.target_limbs, limb), MakeFactor(prime - 1, prime), minus, g.n, q);
  // Masks are drawn modulo the special primes first: see key_masks in fhejax/primitives/key_switch.py.
  const auto place = static_cast<uint32_t>(limb < g.limbs ? g.special + limb : limb - g.limbs);
  for (int64_t d = 0; d < g.digits; ++d)
    for (int64_t first = 0; first < g.n; first += kPiece) {
      const int64_t count = std::min(kPiece, g.n - first);
      uint64_t* const mask = g.halves == 2 ? g.Row(d, 1, limb) + first : piece;
      DrawUniform({g.mask_seed, {kUniform, static_cast<uint32_t>(d), place}}, first, count, coding, mask);
      kernels.multiply_add(mask, minus + first, rows[d] + first, rows[d] + first, count, q);
    }
  if (limb >= g.limbs) return;
  const Factor lift = MakeFactor(ProductModulo(g.extended, g.limbs, q), prime);
  uint64_t* const own = rows[limb / g.digit_size];
  kernels.multiply_factor(g.Limb(g.source, g.source_limbs, limb), lift, minus, g.n, q);
  kernels.add(own, minus, own, g.n, q);
}

void SwitchingKey(ffi::ThreadPool& pool, const handlers::SwitchingKey& in) {
  Generation g{};
  g.n = in.n, g.limbs = in.limbs, g.special = in.specials;
  g.digits = in.digits, g.digit_size = in.digit_size, g.halves = in.seeded ? 1 : 2;
  g.extended.assign(in.moduli.begin(), in.moduli.end());
  g.extended.insert(g.extended.end(), in.special.begin(), in.special.end());
  g.source_limbs = in.limbs_of_source, g.target_limbs = in.limbs_of_target;
  const Shape batch = in.out.batch();
  const auto mask_entries = EntriesOf(batch, in.mask_seeds), error_entries = EntriesOf(batch, in.error_seeds);
  const auto source_entries = EntriesOf(batch, in.source), target_entries = EntriesOf(batch, in.target);
  // No huge pages: clearing those of many keys took longer than faults on small ones, which come from memory just freed.
  for (int64_t entry = 0; entry < in.batch; ++entry) {
    g.mask_seed = in.mask_seeds.data + 8 * mask_entries[entry];
    g.error_seed = in.error_seeds.data + 8 * error_entries[entry];
    g.source = in.source.data + source_entries[entry] * g.source_limbs * g.n;
    g.target = in.target.data + target_entries[entry] * g.target_limbs * g.n;
    g.out = in.out.data + entry * g.digits * g.halves * g.all() * g.n;
    const std::vector<int16_t> errors = Errors(pool, g, in.thresholds);
    ParallelFor(pool, g.all(), [&](int64_t limb) { MakeLimb(g, errors, limb); });
  }
}

}  // namespace

FHEJAX_CPU_HANDLER(SwitchingKey, SwitchingKey);

}  // namespace fhejax
