#include "cuda/centred.h"

#include <algorithm>

#include "common/rounding.h"
#include "common/roots.h"
#include "cuda/batch.h"
#include "cuda/limbs.h"

namespace fhejax {
namespace {

constexpr uint32_t kTogether = 4;                          // digits of which a thread adds up the terms at once
constexpr uint32_t kTerms = kWideTerms - kTogether;        // of older digits, besides a first product and younger ones
constexpr size_t kShared = 48 << 10, kMostShared = 96 << 10;  // what a block may have at once, and on any device

struct MixedRadix {
  const uint64_t* factors;  // of digit i at i (i + 1) / 2: see MixedRadixFactors
  const double* places;
  const Limb* limbs;
  uint32_t count;

  __device__ __forceinline__ const uint64_t* FactorsOf(uint32_t i) const { return factors + uint64_t{i} * (i + 1) / 2; }
};

// A thread makes the digits of one integer, in its own column of shared memory. They are added up in 128 bits whatever
// the prime, since a digit may be larger than the next prime. x: reduced.
__global__ void __launch_bounds__(kThreads)
    CentredValues(Grid grid, const uint64_t* x, double* out, MixedRadix radix, uint32_t n) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x;
  if (at >= n) return;
  const uint64_t* const from = x + uint64_t{tile.entry} * radix.count * n + at;
  uint64_t* const digits = SharedMemory<uint64_t>() + threadIdx.x;
  for (uint32_t first = 0; first < radix.count; first += kTogether) {
    Wide sums[kTogether];
    const uint64_t* factors[kTogether];
    uint32_t limb[kTogether];
#pragma unroll
    for (uint32_t r = 0; r < kTogether; ++r) {  // the last one again where there are no more
      limb[r] = min(first + r, radix.count - 1);
      factors[r] = radix.FactorsOf(limb[r]);
      sums[r] = MultiplyWide(from[uint64_t{limb[r]} * n], factors[r][limb[r]]);
    }
    for (uint32_t begin = 0; begin < first; begin += kTerms) {
      for (uint32_t j = begin; j < min(begin + kTerms, first); ++j) {
        const uint64_t digit = digits[j * blockDim.x];
#pragma unroll
        for (uint32_t r = 0; r < kTogether; ++r) Accumulate(sums[r], digit, factors[r][j]);
      }
#pragma unroll
      for (uint32_t r = 0; r < kTogether; ++r) sums[r] = {ReduceWide(sums[r], radix.limbs[limb[r]].modulus), 0};
    }
#pragma unroll
    for (uint32_t r = 0; r < kTogether; ++r) {
      if (first + r >= radix.count) break;
      const uint64_t digit = ReduceWide(sums[r], radix.limbs[first + r].modulus);
      digits[(first + r) * blockDim.x] = digit;
#pragma unroll
      for (uint32_t later = r + 1; later < kTogether; ++later)
        if (first + later < radix.count) Accumulate(sums[later], digit, factors[later][first + r]);
    }
  }
  uint64_t negative = 0;
  for (uint32_t i = 0; i < radix.count; ++i)
    negative = ExceedsHalf(negative, digits[i * blockDim.x], radix.limbs[i].modulus.value);
  double total = 0;
  for (uint32_t i = 0; i < radix.count; ++i)
    total = __dadd_rn(total, DigitTerm(digits[i * blockDim.x], negative, radix.limbs[i].modulus.value, i == 0, radix.places[i]));
  out[uint64_t{tile.entry} * n + at] = total * (1.0 - 2.0 * static_cast<double>(static_cast<int64_t>(negative)));
}

MixedRadix MixedRadixOf(Call& call, Moduli moduli, Places places) {
  const std::vector<uint64_t> primes(moduli.begin(), moduli.end());
  std::vector<uint64_t> key = primes;
  for (const double place : places) key.push_back(BitsOf(place));
  const auto* const factors = call.Table<uint64_t>("mixed radix factors", primes, [&] {
    std::vector<uint64_t> all;
    for (size_t i = 0; i < primes.size(); ++i)
      for (const uint64_t factor : MixedRadixFactors(primes, i)) all.push_back(factor);
    return all;
  });
  const auto* const doubles =
      call.Table<double>("places", std::move(key), [&] { return std::vector<double>(places.begin(), places.end()); });
  return {factors, doubles, LimbsOf(call, moduli), static_cast<uint32_t>(primes.size())};
}

}  // namespace

void LaunchCentredValues(Call& call, const uint64_t* x, uint32_t entries, uint32_t n, Moduli moduli, Places places,
                         double* out) {
  const size_t column = moduli.size() * sizeof(uint64_t);
  if (places.size() != moduli.size()) call.RefuseArguments("one place for each modulus");
  if (32 * column > kMostShared) call.RefuseArguments("too many moduli for the shared memory of a block");
  const uint32_t threads = std::min(n, 64 * column <= kShared ? 64u : 32u);
  const Grid grid{(n + threads - 1) / threads, entries, 1};
  call.Launch(CentredValues, grid.blocks(), dim3(threads), threads * column, grid, x, out,
              MixedRadixOf(call, moduli, places), n);
}

}  // namespace fhejax
