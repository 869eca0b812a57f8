// Encryption with a public key, and decryption, as whole operations: see fhejax/primitives/encryption.py.

#include <algorithm>
#include <vector>

#include "cpu/coefficients.h"
#include "cpu/handlers.h"
#include "cpu/sampling.h"

namespace fhejax {
namespace {

// What one encryption draws, and what ModDown makes of its errors: for a component with key k and error e, d = e - t, t
// the centred coefficients of v k + e modulo the special prime p. Then (v k + e) / p, rounded, is (v k + d) / p.
struct Randomness {
  std::vector<int16_t> v, e[2];
  std::vector<int64_t> d[2];

  explicit Randomness(int64_t n)
      : v(n),
        e{std::vector<int16_t>(n), std::vector<int16_t>(n)},
        d{std::vector<int64_t>(n), std::vector<int64_t>(n)} {}
};

void Draw(ffi::ThreadPool& pool, const uint32_t* seed, uint32_t object, Moduli thresholds, Randomness& random) {
  const auto n = static_cast<int64_t>(random.v.size()), pieces = (n + kPiece - 1) / kPiece;
  ParallelFor(pool, 3 * pieces, [&](int64_t task) {
    const int64_t first = task / 3 * kPiece, count = std::min(kPiece, n - first);
    const auto poly = static_cast<uint32_t>(task % 3);
    if (poly == 2) return DrawTernary({seed, {kTernary, object, 0}}, first, count, random.v.data() + first);
    DrawGaussian({seed, {kGaussian, 2 * object + poly, 0}}, first, count, thresholds, random.e[poly].data() + first);
  });
}

// key: rows of the special prime, one for each component.
void DivideErrors(const uint64_t* const (&key)[2], uint64_t special, Randomness& random) {
  const Kernels& kernels = ActiveKernels();
  const CodingKernels& coding = ActiveCoding();
  const auto n = static_cast<int64_t>(random.v.size());
  const NttTable& table = NttTableFor(n, special);
  uint64_t* const v = TaskScratch(3 * n);
  uint64_t* const products[] = {v + n, v + 2 * n};
  coding.spread(random.v.data(), n, special, v);
  kernels.forward_ntt(&v, &v, 1, table);
  for (int c = 0; c < 2; ++c) kernels.multiply(v, key[c], products[c], n, table.modulus);
  kernels.inverse_ntt(products, products, 2, table.inverse_degree, table);
  for (int c = 0; c < 2; ++c)
    coding.centred_error(products[c], random.e[c].data(), n, special, random.d[c].data());
}

// Both components modulo q: out[c] = (v key[c] + d[c]) / p, plus the message in the first.
void EncryptLimb(const Randomness& random, const uint64_t* const (&key)[2], const uint64_t* message, uint64_t q,
                 uint64_t special, uint64_t* const (&out)[2]) {
  const Kernels& kernels = ActiveKernels();
  const CodingKernels& coding = ActiveCoding();
  const auto n = static_cast<int64_t>(random.v.size());
  const Factor inverse = MakeFactor(Inverse(special % q, q), q);
  uint64_t* const rows[] = {TaskScratch(n), out[0], out[1]};
  coding.spread_ternary(random.v.data(), n, inverse.value, q, rows[0]);
  for (int c = 0; c < 2; ++c) coding.scale_signed(random.d[c].data(), n, inverse, CodingModulusFor(q), out[c]);
  const NttTable& table = NttTableFor(n, q);
  kernels.forward_ntt(rows, rows, 3, table);
  for (int64_t i = 0; i < n; i += kPiece) {  // piece by piece: the sum is still in the first cache
    const int64_t count = std::min(kPiece, n - i);
    for (int c = 0; c < 2; ++c)
      kernels.multiply_add(rows[0] + i, key[c] + i, out[c] + i, out[c] + i, count, table.modulus);
    kernels.add(out[0] + i, message + i, out[0] + i, count, table.modulus);
  }
}

// A count may be 1 and serve all.
void EncryptPublic(ffi::ThreadPool& pool, const handlers::EncryptPublic& in) {
  const int64_t n = in.n, limbs = in.limbs, key_limbs = in.limbs_of_key;
  const uint64_t special = in.special[0];
  const Shape batch = in.out.batch();
  const auto seed_entries = EntriesOf(batch, in.seeds), key_entries = EntriesOf(batch, in.key);
  const auto message_entries = EntriesOf(batch, in.message);
  Randomness random(n);
  PrepareResult(in.out);
  for (int64_t entry = 0; entry < in.batch; ++entry)
    for (int64_t object = 0; object < in.count; ++object) {
      const uint64_t* const key =
          in.key.data + (key_entries[entry] * in.key_count + object % in.key_count) * 2 * key_limbs * n;
      const uint64_t* const message =
          in.message.data + (message_entries[entry] * in.message_count + object % in.message_count) * limbs * n;
      uint64_t* const to = in.out.data + (entry * in.count + object) * 2 * limbs * n;
      Draw(pool, in.seeds.data + 8 * seed_entries[entry], static_cast<uint32_t>(object), in.thresholds, random);
      DivideErrors({key + (key_limbs - 1) * n, key + (2 * key_limbs - 1) * n}, special, random);
      ParallelFor(pool, limbs, [&](int64_t limb) {
        EncryptLimb(random, {key + limb * n, key + (key_limbs + limb) * n}, message + limb * n, in.moduli[limb], special,
                    {to + limb * n, to + (limbs + limb) * n});
      });
    }
}

void DecryptCoefficients(ffi::ThreadPool& pool, const handlers::DecryptCoefficients& in) {
  const int64_t n = in.n, components = in.components;
  const auto entries = EntriesOf(in.out.batch(), in.data), secret_entries = EntriesOf(in.out.batch(), in.secret);
  const auto row = [&](int64_t entry, int64_t limb, uint64_t* to) -> const uint64_t* {
    const uint64_t* const s = in.secret.data + (secret_entries[entry] * in.limbs_of_secret + limb) * n;
    const auto component = [&](int64_t c) {
      return in.data.data + ((entries[entry] * components + c) * in.limbs + limb) * n;
    };
    const uint64_t* sum = component(components - 1);
    for (int64_t c = components - 2; c >= 0; --c, sum = to)
      ActiveKernels().multiply_add(sum, s, component(c), to, n, ModulusFor(in.moduli[limb]));
    return sum;
  };
  CentredCoefficients(pool, n, in.batch, in.moduli, in.places, row, in.out.data);
}

}  // namespace

FHEJAX_CPU_HANDLER(EncryptPublic, EncryptPublic);
FHEJAX_CPU_HANDLER(DecryptCoefficients, DecryptCoefficients);

}  // namespace fhejax
