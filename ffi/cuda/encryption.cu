// Encryption with a public key: see fhejax/primitives/encryption.py for what is computed modulo the special prime p.
// With v, e_0, e_1 small and t_c the centred coefficients of v key_c + e_c modulo p, component c is
// v (key_c / p) + (e_c - t_c) / p modulo every q, and the message in the first.

#include <algorithm>

#include "common/roots.h"
#include "cuda/arithmetic.h"
#include "cuda/automorphism.h"
#include "cuda/handlers.h"
#include "cuda/ntt.h"
#include "cuda/sampling.h"

namespace fhejax {
namespace {

// What all encryptions, `count` of them, work in.
struct Encryptions {
  uint64_t* v;         // [count, limbs, N]: first v modulo p in the first limb, then v / p in all
  uint64_t* products;  // [count, 2, N] modulo p
  int16_t* small_v;    // [count, N]
  int16_t* errors;     // [count, 2, N]
  uint32_t count, limbs, n;
};

// The public key: u64[.., 2, limbs, N], the last limb that of p.
struct PublicKey {
  const uint64_t* data;
  uint32_t limbs;

  __device__ __forceinline__ const uint64_t* Row(uint32_t entry, uint32_t component, uint32_t limb, uint32_t n) const {
    return data + ((uint64_t{entry} * 2 + component) * limbs + limb) * n;
  }
};

// v modulo p, reduced.
__global__ void __launch_bounds__(kThreads) SpreadSpecial(Grid grid, Encryptions work, uint64_t p) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= work.n) return;
  work.v[uint64_t{tile.entry} * work.limbs * work.n + at] =
      ResidueOfSmall(work.small_v[uint64_t{tile.entry} * work.n + at], p);
}

// v key_c modulo p for entry 2 e + c, reduced; special: the limb of p.
__global__ void __launch_bounds__(kThreads)
    TimesSpecialKey(Grid grid, Batch<2> batch, Encryptions work, PublicKey key, const Limb* special) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x, encryption = tile.entry / 2;
  if (at >= work.n) return;
  const uint64_t v = work.v[uint64_t{encryption} * work.limbs * work.n + at];
  const uint64_t factor = key.Row(batch.Entry(0, encryption), tile.entry % 2, key.limbs - 1, work.n)[at];
  uint64_t* const to = work.products + uint64_t{tile.entry} * work.n + at;
  WithArithmetic(*special, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(*special);
    *to = A::Store(A::Multiply(A::Load(v), A::Load(factor), q), q);
  });
}

// v / p and (e_c - t_c) / p in every limb, reduced. inverses: 1 / p in each.
__global__ void __launch_bounds__(kThreads) SpreadDivided(Grid grid, Encryptions work, uint64_t* out, const Limb* limbs,
                                                          const Factor* inverses, uint64_t p) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x, n = work.n;
  if (at >= n) return;
  const uint64_t q = limbs[tile.limb].modulus.value;
  const Factor inverse = inverses[tile.limb];
  work.v[(uint64_t{tile.entry} * work.limbs + tile.limb) * n + at] =
      ScaleTernary(work.small_v[uint64_t{tile.entry} * n + at], inverse.value, q);
#pragma unroll
  for (uint32_t c = 0; c < 2; ++c) {
    const uint64_t row = uint64_t{tile.entry} * 2 + c;
    const int64_t d = CentredError(work.products[row * n + at], work.errors[row * n + at], p);
    out[(row * work.limbs + tile.limb) * n + at] = ScaleSigned(d, inverse, q);
  }
}

// In NTT form: v key_c is added to both components, and the message to the first; all words are reduced. Operand 0: the key,
// operand 1: the message.
__global__ void __launch_bounds__(kThreads)
    AddKeyAndMessage(Grid grid, Batch<2> batch, Encryptions work, PublicKey key, const uint64_t* message, uint64_t* out,
                     const Limb* limbs) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t at = tile.index * blockDim.x + threadIdx.x, n = work.n;
  if (at >= n) return;
  const uint64_t v = work.v[(uint64_t{tile.entry} * work.limbs + tile.limb) * n + at];
  const uint64_t added = message[(uint64_t{batch.Entry(1, tile.entry)} * work.limbs + tile.limb) * n + at];
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    const typename A::Modulus q = A::ModulusOf(limb);
#pragma unroll
    for (uint32_t c = 0; c < 2; ++c) {
      uint64_t* const to = out + ((uint64_t{tile.entry} * 2 + c) * work.limbs + tile.limb) * n + at;
      const uint64_t factor = key.Row(batch.Entry(0, tile.entry), c, tile.limb, n)[at];
      const typename A::Word sum = A::Add(A::Multiply(A::Load(v), A::Load(factor), q), A::Load(*to));
      *to = A::Store(c == 0 ? A::Add(sum, A::Load(added)) : sum, q);
    }
  });
}

// 1 / p modulo every q, on the device.
const Factor* InversesOf(Call& call, Moduli moduli, uint64_t p) {
  std::vector<uint64_t> key(moduli.begin(), moduli.end());
  key.push_back(p);
  return call.Table<Factor>("inverses of a special prime", std::move(key), [&] {
    std::vector<Factor> inverses;
    for (const uint64_t q : moduli) inverses.push_back(MakeFactor(Inverse(p % q, q), q));
    return inverses;
  });
}

// A count may be 1 and serve all.
void EncryptPublic(Call& call, const handlers::EncryptPublic& in) {
  if (in.count == 0) return;
  const auto n = static_cast<uint32_t>(in.n), limbs = static_cast<uint32_t>(in.limbs);
  const auto objects = static_cast<uint32_t>(in.count), count = static_cast<uint32_t>(in.batch * in.count);
  const auto seed_batch = BatchOf<1>(call, in.out.batch(), {in.seeds.batch()});
  const auto batch = BatchOf<2>(call, in.out.front(3), {in.key.front(3), in.message.front(2)});
  const uint32_t threads = std::min(n, kThreads), tiles = (n + threads - 1) / threads;
  const Encryptions work{in.workspace.v, in.workspace.products, reinterpret_cast<int16_t*>(in.workspace.small_v),
                         reinterpret_cast<int16_t*>(in.workspace.errors), count, limbs, n};
  const uint64_t p = in.special[0];
  const Limb *const all = TransformLimbsOf(call, in.moduli, n), *const of_p = TransformLimbsOf(call, in.special, n);
  const int log_degree = LogOf(n);
  const NttShape cut = NttShapeOf(log_degree);
  const PublicKey public_key{in.key.data, static_cast<uint32_t>(in.limbs_of_key)};
  const Grid entries{tiles, count, 1}, pairs{tiles, 2 * count, 1}, rows{tiles, count, limbs};
  const uint64_t stride = uint64_t{limbs} * n;

  LaunchTernary(call, {in.seeds.data, seed_batch, objects}, work.small_v, n);
  LaunchGaussian(call, {in.seeds.data, seed_batch, 2 * objects}, ThresholdsOf(call, in.thresholds), work.errors, n);
  call.Launch(SpreadSpecial, entries.blocks(), dim3(threads), 0, entries, work, p);
  LaunchNtt(call, {work.v, work.v, stride, stride, count, 1, log_degree}, of_p, cut);
  call.Launch(TimesSpecialKey, pairs.blocks(), dim3(threads), 0, pairs, batch, work, public_key, of_p);
  LaunchInverseNtt(call, {work.products, work.products, n, n, 2 * count, 1, log_degree}, of_p, cut);
  call.Launch(SpreadDivided, rows.blocks(), dim3(threads), 0, rows, work, in.out.data, all,
              InversesOf(call, in.moduli, p), p);
  LaunchNtt(call, {work.v, work.v, stride, stride, count, limbs, log_degree}, all, cut);
  LaunchNtt(call, {in.out.data, in.out.data, stride, stride, 2 * count, limbs, log_degree}, all, cut);
  call.Launch(AddKeyAndMessage, rows.blocks(), dim3(threads), 0, rows, batch, work, public_key, in.message.data,
              in.out.data, all);
}

}  // namespace

FHEJAX_CUDA_HANDLER(EncryptPublic, EncryptPublic);

}  // namespace fhejax
