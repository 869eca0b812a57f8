// Switching keys: errors are drawn as residues where the key will be, transformed there, and then masks are drawn where they
// are added.

#include <algorithm>
#include <vector>

#include "common/roots.h"
#include "cuda/arithmetic.h"
#include "cuda/automorphism.h"
#include "cuda/handlers.h"
#include "cuda/ntt.h"
#include "cuda/sampling.h"

namespace fhejax {
namespace {

struct KeyShape {
  uint32_t n, limbs, special, digits, digit_size, halves;

  __host__ __device__ __forceinline__ uint32_t all() const { return limbs + special; }
  // The limb of a secret, which may have more than the key; those of the special primes are last.
  __host__ __device__ __forceinline__ uint32_t SecretLimb(uint32_t have, uint32_t limb) const {
    return limb < limbs ? limb : have - special + limb - limbs;
  }
};

struct Secrets {
  const uint64_t *source, *target;
  uint32_t source_limbs, target_limbs;
  Batch<2> batch;
};

// Errors e in NTT form -> e - a target + g P source, and the mask a behind it if there are two halves. An entry is a digit;
// a thread draws four words of a mask. All words are reduced. products: P modulo q_0..q_l.
__global__ void __launch_bounds__(kThreads)
    MakeKeys(Grid grid, Streams masks, Secrets secrets, const uint64_t* products, uint64_t* out, const Limb* limbs,
             KeyShape shape) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t block = tile.index * blockDim.x + threadIdx.x, digit = masks.ObjectOf(tile.entry);
  if (4 * block >= shape.n) return;
  // Masks are drawn modulo the special primes first: see key_masks in fhejax/primitives/key_switch.py.
  const uint32_t place = tile.limb < shape.limbs ? shape.special + tile.limb : tile.limb - shape.limbs;
  uint32_t words[kBlockWords];
  ReadBlock(masks.SeedOf(tile.entry), block, kUniform, digit, place, words);
  const uint32_t entry = tile.entry / shape.digits;
  const auto secret = [&](int operand, const uint64_t* data, uint32_t have) {
    const uint64_t row = uint64_t{secrets.batch.Entry(operand, entry)} * have + shape.SecretLimb(have, tile.limb);
    return data + row * shape.n + 4 * block;
  };
  const uint64_t* const source = secret(0, secrets.source, secrets.source_limbs);
  const uint64_t* const target = secret(1, secrets.target, secrets.target_limbs);
  uint64_t* const first =
      out + (uint64_t{tile.entry} * shape.halves * shape.all() + tile.limb) * shape.n + 4 * block;
  uint64_t* const second = first + uint64_t{shape.all()} * shape.n;
  const bool own = tile.limb < shape.limbs && tile.limb / shape.digit_size == digit;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using Word = typename A::Word;
    const typename A::Modulus q = A::ModulusOf(limb);
    const uint64_t prime = limb.modulus.value;
    const Word product = A::Load(own ? products[tile.limb] : 0);
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
      if (4 * block + k >= shape.n) continue;
      const uint64_t mask = ReduceWide(WideNumber(words + 4 * k), limb.modulus);
      const Word minus = A::Load(Reduce(prime - target[k], prime));
      Word sum = A::Add(A::Multiply(A::Load(mask), minus, q), A::Load(first[k]));
      if (own) sum = A::Add(sum, A::Multiply(A::Load(source[k]), product, q));
      first[k] = A::Store(sum, q);
      if (shape.halves == 2) second[k] = mask;
    }
  });
}

// P modulo q_0..q_l, on the device.
const uint64_t* ProductsOf(Call& call, Moduli moduli, Moduli special) {
  std::vector<uint64_t> key(moduli.begin(), moduli.end());
  key.push_back(0);  // no modulus
  key.insert(key.end(), special.begin(), special.end());
  return call.Table<uint64_t>("products of special primes", std::move(key), [&] {
    std::vector<uint64_t> products;
    for (const uint64_t q : moduli) {
      uint64_t product = 1;
      for (const uint64_t p : special) product = MultiplySlow(product, p % q, q);
      products.push_back(product);
    }
    return products;
  });
}

void SwitchingKey(Call& call, const handlers::SwitchingKey& in) {
  const KeyShape key{static_cast<uint32_t>(in.n),      static_cast<uint32_t>(in.limbs),      static_cast<uint32_t>(in.specials),
                     static_cast<uint32_t>(in.digits), static_cast<uint32_t>(in.digit_size), in.seeded ? 1u : 2u};
  const Shape batch = in.out.batch();
  const Secrets secrets{in.source.data, in.target.data, static_cast<uint32_t>(in.limbs_of_source),
                        static_cast<uint32_t>(in.limbs_of_target),
                        BatchOf<2>(call, batch, {in.source.batch(), in.target.batch()})};
  std::vector<uint64_t> extended(in.moduli.begin(), in.moduli.end());
  extended.insert(extended.end(), in.special.begin(), in.special.end());
  const Limb* const all = TransformLimbsOf(call, Moduli(extended.data(), extended.size()), key.n);
  const uint64_t stride = uint64_t{key.halves} * key.all() * key.n;
  const uint32_t entries = secrets.batch.count * key.digits;
  LaunchGaussian(call, {in.error_seeds.data, BatchOf<1>(call, batch, {in.error_seeds.batch()}), key.digits},
                 ThresholdsOf(call, in.thresholds), {in.out.data, stride, all, key.all()}, key.n);
  const NttRows rows{in.out.data, in.out.data, stride, stride, entries, key.all(), LogOf(key.n)};
  LaunchNtt(call, rows, all, NttShapeOf(rows.log_degree));
  const uint32_t blocks = (key.n + 3) / 4, threads = std::min(blocks, kThreads);
  const Grid grid{(blocks + threads - 1) / threads, entries, key.all()};
  const Streams masks{in.mask_seeds.data, BatchOf<1>(call, batch, {in.mask_seeds.batch()}), key.digits};
  call.Launch(MakeKeys, grid.blocks(), dim3(threads), 0, grid, masks, secrets, ProductsOf(call, in.moduli, in.special),
              in.out.data, all, key);
}

}  // namespace

FHEJAX_CUDA_HANDLER(SwitchingKey, SwitchingKey);

}  // namespace fhejax
