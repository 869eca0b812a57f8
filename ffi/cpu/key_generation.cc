// Switching keys as whole operations: see fhejax/primitives/key_generation.py.

#include <algorithm>
#include <vector>

#include "cpu/handlers.h"
#include "cpu/parallel.h"
#include "cpu/sampling.h"
#include "cpu/scratch.h"

namespace fhejax {
namespace {

using Seeds = ffi::Buffer<ffi::U32>;

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

// seeds: u32[*batch, 8] of masks and of errors; source, target: u64[*batch, at least limbs(QP), N] ->
// u64[*batch, digits, limbs(QP), N], or both halves, u64[*batch, digits, 2, limbs(QP), N].
ffi::Error SwitchingKeyHandler(ffi::ThreadPool pool, Seeds mask_seeds, Seeds error_seeds, Input source, Input target,
                               Output out, Moduli moduli, Moduli special, int64_t digit_size, int64_t seeded,
                               Moduli thresholds) {
  const auto invalid = [] { return ffi::Error::InvalidArgument("fhejax_switching_key: operand shapes do not fit"); };
  const Dimensions shape = ShapeOf(*out), sources = ShapeOf(source), targets = ShapeOf(target);
  const size_t own = seeded ? 3 : 4;
  if (shape.size() < own || sources.size() < 2 || targets.size() < 2 || digit_size < 1) return invalid();
  Generation g{};
  g.n = shape.back();
  g.limbs = static_cast<int64_t>(moduli.size());
  g.special = static_cast<int64_t>(special.size());
  g.digit_size = digit_size;
  g.digits = (g.limbs + digit_size - 1) / digit_size;
  g.halves = seeded ? 1 : 2;
  g.extended.assign(moduli.begin(), moduli.end());
  g.extended.insert(g.extended.end(), special.begin(), special.end());
  g.source_limbs = sources[sources.size() - 2], g.target_limbs = targets[targets.size() - 2];
  if (shape[shape.size() - 2] != g.all() || shape[shape.size() - own] != g.digits || sources.back() != g.n ||
      targets.back() != g.n || std::min(g.source_limbs, g.target_limbs) < g.all())
    return invalid();
  const Batch batch = BatchOf(shape, own);
  const auto mask_entries = batch.Entries(ShapeOf(mask_seeds), 1), error_entries = batch.Entries(ShapeOf(error_seeds), 1);
  const auto source_entries = batch.Entries(sources, 2), target_entries = batch.Entries(targets, 2);
  if (batch.count() &&
      (mask_entries.empty() || error_entries.empty() || source_entries.empty() || target_entries.empty()))
    return invalid();
  // No huge pages: clearing those of many keys took longer than faults on small ones, which come from memory just freed.
  for (int64_t entry = 0; entry < batch.count(); ++entry) {
    g.mask_seed = mask_seeds.typed_data() + 8 * mask_entries[entry];
    g.error_seed = error_seeds.typed_data() + 8 * error_entries[entry];
    g.source = source.typed_data() + source_entries[entry] * g.source_limbs * g.n;
    g.target = target.typed_data() + target_entries[entry] * g.target_limbs * g.n;
    g.out = out->typed_data() + entry * g.digits * g.halves * g.all() * g.n;
    const std::vector<int16_t> errors = Errors(pool, g, thresholds);
    ParallelFor(pool, g.all(), [&](int64_t limb) { MakeLimb(g, errors, limb); });
  }
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSwitchingKey, SwitchingKeyHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Seeds>()
                                  .Arg<Seeds>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<Moduli>("special")
                                  .Attr<int64_t>("digit_size")
                                  .Attr<int64_t>("seeded")
                                  .Attr<Moduli>("thresholds"));

}  // namespace fhejax
