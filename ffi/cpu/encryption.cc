// Encryption with a public key, and decryption, as whole operations: see fhejax/primitives/encryption.py.

#include <algorithm>
#include <vector>

#include "cpu/coefficients.h"
#include "cpu/handlers.h"
#include "cpu/sampling.h"

namespace fhejax {
namespace {

using Seeds = ffi::Buffer<ffi::U32>;

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

// seeds: u32[*batch, 8]; key: u64[*batch, count, 2, key limbs, N], the last limb the special prime's;
// message: u64[*batch, count, limbs, N] -> u64[*batch, count, 2, limbs, N]. A count may be 1 and serve all.
ffi::Error EncryptPublicHandler(ffi::ThreadPool pool, Seeds seeds, Input key, Input message, Output out, Moduli moduli,
                                Moduli special, Moduli thresholds) {
  const Dimensions shape = ShapeOf(*out), keys = ShapeOf(key), messages = ShapeOf(message);
  const size_t rank = shape.size();
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (rank < 4 || keys.size() != rank || messages.size() != rank - 1 || special.size() != 1 ||
      shape[rank - 2] != limbs || keys[rank - 2] <= limbs)
    return ffi::Error::InvalidArgument("fhejax_encrypt_public: the shapes do not fit");
  const int64_t n = shape[rank - 1], count = shape[rank - 4], key_limbs = keys[rank - 2];
  const int64_t key_count = keys[rank - 4], message_count = messages[rank - 4];
  const Batch batch = BatchOf(shape, 4);
  const auto seed_entries = batch.Entries(ShapeOf(seeds), 1), key_entries = batch.Entries(keys, 4);
  const auto message_entries = batch.Entries(messages, 3);
  if (batch.count() && (seed_entries.empty() || key_entries.empty() || message_entries.empty()))
    return ffi::Error::InvalidArgument("fhejax_encrypt_public: batch axes do not broadcast");
  Randomness random(n);
  PrepareResult(out);
  for (int64_t entry = 0; entry < batch.count(); ++entry)
    for (int64_t object = 0; object < count; ++object) {
      const uint64_t* const own_key =
          key.typed_data() + (key_entries[entry] * key_count + object % key_count) * 2 * key_limbs * n;
      const uint64_t* const own_message =
          message.typed_data() + (message_entries[entry] * message_count + object % message_count) * limbs * n;
      uint64_t* const to = out->typed_data() + (entry * count + object) * 2 * limbs * n;
      Draw(pool, seeds.typed_data() + 8 * seed_entries[entry], static_cast<uint32_t>(object), thresholds, random);
      DivideErrors({own_key + (key_limbs - 1) * n, own_key + (2 * key_limbs - 1) * n}, special.begin()[0], random);
      ParallelFor(pool, limbs, [&](int64_t limb) {
        EncryptLimb(random, {own_key + limb * n, own_key + (key_limbs + limb) * n}, own_message + limb * n,
                    moduli.begin()[limb], special.begin()[0], {to + limb * n, to + (limbs + limb) * n});
      });
    }
  return ffi::Error::Success();
}

// data: u64[*batch, components, limbs, N]; secret: u64[*batch, key limbs, N] -> f64[*batch, N], the centred
// coefficients of c_0 + c_1 s + c_2 s^2 ..
ffi::Error DecryptCoefficientsHandler(ffi::ThreadPool pool, Input data, Input secret, FloatOutput out, Moduli moduli,
                                      ffi::Span<const double> places) {
  const Dimensions shape = ShapeOf(data), secrets = ShapeOf(secret), result = ShapeOf(*out);
  const size_t rank = shape.size();
  const auto limbs = static_cast<int64_t>(moduli.size());
  if (rank < 3 || secrets.size() != rank - 1 || result.size() != rank - 2 || shape[rank - 2] != limbs ||
      secrets[rank - 3] < limbs || shape[rank - 3] < 1)
    return ffi::Error::InvalidArgument("fhejax_decrypt_coefficients: the shapes do not fit");
  const int64_t n = shape[rank - 1], components = shape[rank - 3], key_limbs = secrets[rank - 3];
  const Batch batch = BatchOf(result, 1);
  const auto entries = batch.Entries(shape, 3), secret_entries = batch.Entries(secrets, 2);
  if (batch.count() && (entries.empty() || secret_entries.empty()))
    return ffi::Error::InvalidArgument("fhejax_decrypt_coefficients: batch axes do not broadcast");
  const auto row = [&](int64_t entry, int64_t limb, uint64_t* to) -> const uint64_t* {
    const uint64_t* const s = secret.typed_data() + (secret_entries[entry] * key_limbs + limb) * n;
    const auto component = [&](int64_t c) {
      return data.typed_data() + ((entries[entry] * components + c) * limbs + limb) * n;
    };
    const uint64_t* sum = component(components - 1);
    for (int64_t c = components - 2; c >= 0; --c, sum = to)
      ActiveKernels().multiply_add(sum, s, component(c), to, n, ModulusFor(moduli.begin()[limb]));
    return sum;
  };
  return CentredCoefficients(pool, n, batch.count(), moduli, places, row, out->typed_data());
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxEncryptPublic, EncryptPublicHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Seeds>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::U64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<Moduli>("special")
                                  .Attr<Moduli>("thresholds"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxDecryptCoefficients, DecryptCoefficientsHandler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Input>()
                                  .Arg<Input>()
                                  .Ret<ffi::Buffer<ffi::F64>>()
                                  .Attr<Moduli>("moduli")
                                  .Attr<ffi::Span<const double>>("places"));

}  // namespace fhejax
