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

using Seeds = ffi::Buffer<ffi::U32>;

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

// seeds: u32[*batch, 8] of masks and of errors; source, target: u64[*batch, at least limbs(QP), N] ->
// u64[*batch, digits, limbs(QP), N], or both halves, u64[*batch, digits, 2, limbs(QP), N].
ffi::Error SwitchingKeyHandler(Call& call, Seeds mask_seeds, Seeds error_seeds, Input source, Input target, Output out,
                               Moduli moduli, Moduli special, int64_t digit_size, int64_t seeded, Moduli thresholds) {
  const auto invalid = [] { return ffi::Error::InvalidArgument("fhejax_switching_key: operand shapes do not fit"); };
  const Dimensions shape = ShapeOf(*out), sources = ShapeOf(source), targets = ShapeOf(target);
  const size_t own = seeded ? 3 : 4;
  if (shape.size() < own || sources.size() < 2 || targets.size() < 2 || digit_size < 1) return invalid();
  const auto limbs = static_cast<uint32_t>(moduli.size()), size = static_cast<uint32_t>(digit_size);
  const KeyShape key{static_cast<uint32_t>(shape.back()), limbs, static_cast<uint32_t>(special.size()),
                     (limbs + size - 1) / size,           size,  seeded ? 1u : 2u};
  const Secrets secrets{source.typed_data(), target.typed_data(), static_cast<uint32_t>(sources[sources.size() - 2]),
                        static_cast<uint32_t>(targets[targets.size() - 2]), {}};
  if (shape[shape.size() - 2] != key.all() || shape[shape.size() - own] != key.digits || sources.back() != key.n ||
      targets.back() != key.n || std::min(secrets.source_limbs, secrets.target_limbs) < key.all())
    return invalid();
  const OperandShape result{shape, own};
  const auto mask_batch = BroadcastOf<1>(result, {OperandShape{ShapeOf(mask_seeds), 1}});
  const auto error_batch = BroadcastOf<1>(result, {OperandShape{ShapeOf(error_seeds), 1}});
  const auto batch = BroadcastOf<2>(result, {OperandShape{sources, 2}, OperandShape{targets, 2}});
  if (!mask_batch || !error_batch || !batch) return invalid();
  std::vector<uint64_t> extended(moduli.begin(), moduli.end());
  extended.insert(extended.end(), special.begin(), special.end());
  const Limb* const all = TransformLimbsOf(call, Moduli(extended.data(), extended.size()), key.n);
  const uint64_t stride = uint64_t{key.halves} * key.all() * key.n;
  const uint32_t entries = batch->count * key.digits;
  LaunchGaussian(call, {error_seeds.typed_data(), *error_batch, key.digits}, ThresholdsOf(call, thresholds),
                 {out->typed_data(), stride, all, key.all()}, key.n);
  const NttRows rows{out->typed_data(), out->typed_data(), stride, stride, entries, key.all(), LogOf(key.n)};
  LaunchNtt(call, rows, all, NttShapeOf(rows.log_degree));
  const uint32_t blocks = (key.n + 3) / 4, threads = std::min(blocks, kThreads);
  const Grid grid{(blocks + threads - 1) / threads, entries, key.all()};
  call.Launch(MakeKeys, grid.blocks(), dim3(threads), 0, grid, Streams{mask_seeds.typed_data(), *mask_batch, key.digits},
              Secrets{secrets.source, secrets.target, secrets.source_limbs, secrets.target_limbs, *batch},
              ProductsOf(call, moduli, special), out->typed_data(), all, key);
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxSwitchingKey, SwitchingKeyHandler,
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
