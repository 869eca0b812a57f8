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

  static uint64_t Words(uint64_t count, uint64_t limbs, uint64_t n) {
    return count * (limbs + 2) * n + (3 * count * n + 3) / 4;
  }
  Encryptions(uint64_t* words, uint32_t count, uint32_t limbs, uint32_t n)
      : v(words),
        products(words + uint64_t{count} * limbs * n),
        small_v(reinterpret_cast<int16_t*>(products + uint64_t{2} * count * n)),
        errors(small_v + uint64_t{count} * n),
        count(count),
        limbs(limbs),
        n(n) {}
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

// seeds: u32[*batch, 8]; key: u64[*batch, count, 2, key limbs, N], the last limb the special prime's;
// message: u64[*batch, count, limbs, N] -> u64[*batch, count, 2, limbs, N]. A count may be 1 and serve all.
ffi::Error EncryptPublicHandler(Call& call, ffi::Buffer<ffi::U32> seeds, Input key, Input message, Output out,
                                Output workspace, Moduli moduli, Moduli special, Moduli thresholds) {
  const Dimensions shape = ShapeOf(*out), keys = ShapeOf(key), messages = ShapeOf(message);
  const size_t rank = shape.size();
  const auto limbs = static_cast<uint32_t>(moduli.size());
  if (rank < 4 || keys.size() != rank || messages.size() != rank - 1 || special.size() != 1 || limbs < 1 ||
      shape[rank - 2] != limbs || keys[rank - 2] <= limbs)
    return ffi::Error::InvalidArgument("fhejax_encrypt_public: the shapes do not fit");
  const auto seed_batch = BroadcastOf<1>({shape, 4}, {OperandShape{ShapeOf(seeds), 1}});
  const auto batch = BroadcastOf<2>({shape, 3}, {OperandShape{keys, 3}, OperandShape{messages, 2}});
  if (!seed_batch || !batch) return ffi::Error::InvalidArgument("fhejax_encrypt_public: batch axes do not broadcast");
  const auto n = static_cast<uint32_t>(shape[rank - 1]), objects = static_cast<uint32_t>(shape[rank - 4]);
  const uint32_t count = batch->count, threads = std::min(n, kThreads), tiles = (n + threads - 1) / threads;
  const Encryptions work(call.Workspace(workspace, Encryptions::Words(count, limbs, n)), count, limbs, n);
  const uint64_t p = special[0];
  const Limb *const all = TransformLimbsOf(call, moduli, n), *const of_p = TransformLimbsOf(call, special, n);
  const int log_degree = LogOf(n);
  const NttShape cut = NttShapeOf(log_degree);
  const PublicKey public_key{key.typed_data(), static_cast<uint32_t>(keys[rank - 2])};
  const Grid entries{tiles, count, 1}, pairs{tiles, 2 * count, 1}, rows{tiles, count, limbs};
  const uint64_t stride = uint64_t{limbs} * n;

  LaunchTernary(call, {seeds.typed_data(), *seed_batch, objects}, work.small_v, n);
  LaunchGaussian(call, {seeds.typed_data(), *seed_batch, 2 * objects}, ThresholdsOf(call, thresholds), work.errors, n);
  call.Launch(SpreadSpecial, entries.blocks(), dim3(threads), 0, entries, work, p);
  LaunchNtt(call, {work.v, work.v, stride, stride, count, 1, log_degree}, of_p, cut);
  call.Launch(TimesSpecialKey, pairs.blocks(), dim3(threads), 0, pairs, *batch, work, public_key, of_p);
  LaunchInverseNtt(call, {work.products, work.products, n, n, 2 * count, 1, log_degree}, of_p, cut);
  call.Launch(SpreadDivided, rows.blocks(), dim3(threads), 0, rows, work, out->typed_data(), all,
              InversesOf(call, moduli, p), p);
  LaunchNtt(call, {work.v, work.v, stride, stride, count, limbs, log_degree}, all, cut);
  LaunchNtt(call, {out->typed_data(), out->typed_data(), stride, stride, 2 * count, limbs, log_degree}, all, cut);
  call.Launch(AddKeyAndMessage, rows.blocks(), dim3(threads), 0, rows, *batch, work, public_key, message.typed_data(),
              out->typed_data(), all);
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxEncryptPublic, EncryptPublicHandler,
                    .Arg<ffi::Buffer<ffi::U32>>()
                        .Arg<Input>()
                        .Arg<Input>()
                        .Ret<ffi::Buffer<ffi::U64>>()
                        .Ret<ffi::Buffer<ffi::U64>>()
                        .Attr<Moduli>("moduli")
                        .Attr<Moduli>("special")
                        .Attr<Moduli>("thresholds"));

}  // namespace fhejax
