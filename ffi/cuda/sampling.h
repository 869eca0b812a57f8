// Random streams on the device, as fhejax/primitives/sampling.py defines them. Nothing here branches on, or looks up by, a
// random number.
#pragma once

#include "common/chacha20.h"
#include "common/sampling.h"
#include "cuda/batch.h"
#include "cuda/limbs.h"

namespace fhejax {

constexpr uint32_t kBlockWords = 16;

// The block of a stream that `counter` says. seed: eight words.
FHEJAX_DEVICE void ReadBlock(const uint32_t* seed, uint32_t counter, Tag tag, uint32_t object, uint32_t limb,
                             uint32_t (&words)[kBlockWords]) {
  const uint32_t nonce[3] = {tag, object, limb};
  ChaCha20Block(seed, counter, nonce, words);
}

// Entries of polynomials: entry e is object e % objects of the seed of batch entry e / objects.
struct Streams {
  const uint32_t* seeds;
  Batch<1> batch;
  uint32_t objects;

  uint32_t entries() const { return batch.count * objects; }
  __device__ __forceinline__ uint32_t ObjectOf(uint32_t entry) const { return entry % objects; }
  __device__ __forceinline__ const uint32_t* SeedOf(uint32_t entry) const {
    return seeds + uint64_t{8} * batch.Entry(0, entry / objects);
  }
};

// Of a discrete Gaussian, on the device: the upper and the lower 64 bits of each.
struct Thresholds {
  const uint64_t* words;
  uint32_t count;
};

Thresholds ThresholdsOf(Call& call, Moduli words);

// Where small integers go as residues: rows [limbs, N] of each entry, entries this many words apart.
struct ResidueRows {
  uint64_t* to;
  uint64_t stride;
  const Limb* limbs;
  uint32_t count;
};

// Polynomials of small integers in every entry of the streams: as int16[entries, N], or as residues, reduced.
void LaunchTernary(Call& call, const Streams& streams, int16_t* out, uint32_t n);
void LaunchTernary(Call& call, const Streams& streams, const ResidueRows& out, uint32_t n);
void LaunchGaussian(Call& call, const Streams& streams, Thresholds thresholds, int16_t* out, uint32_t n);
void LaunchGaussian(Call& call, const Streams& streams, Thresholds thresholds, const ResidueRows& out, uint32_t n);

}  // namespace fhejax
