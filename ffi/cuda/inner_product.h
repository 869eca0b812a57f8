// The product of digits with a switching key, summed over the digits, for both halves of the key in one launch.
//
// What else is added, where a digit is the polynomial itself, and where the sums go are the caller's:
// own.At<A>(tile, digits entry, other entry, limb, q) returns own(k) -> OwnWords<A>, and has kAdds;
// out.At(tile, other entry, limb) returns write(k, first, second), of reduced words.
#pragma once

#include <algorithm>

#include "cuda/batch.h"
#include "cuda/sums.h"

namespace fhejax {

constexpr int kSwitchOperands = 4;  // whose entries differ: digits, key, masks, and one of the caller's
using SwitchBatch = Batch<kSwitchOperands>;

// Both halves of a key as rows, whose digits and entries are so many words apart. Masks that were drawn lie apart from
// the first halves.
struct KeyRows {
  const uint64_t *first, *second;
  uint64_t first_entry, first_digit, second_entry, second_digit;
  uint32_t first_skip, second_skip;  // limbs of the key before its special ones that are not used
};

// [digits entries][digits][limbs] rows; a digit's own limbs, below `moduli`, are not among them.
struct DigitRows {
  const uint64_t* data;
  uint32_t digits, digit_size, moduli, limbs;
  uint32_t n;
};

template <typename A>
struct OwnWords {
  typename A::Word own, first, second;  // the polynomial, and what is added to either half: |x| <= q or below 4q
};

// For digits that are all there.
struct NothingOwn {
  template <typename A>
  __device__ __forceinline__ auto At(const Tile&, uint32_t, uint32_t, const Limb&, const typename A::Modulus&) const {
    return [](uint32_t) { return OwnWords<A>{0, 0, 0}; };
  }
};

// u64[entries, 2, limbs, N].
struct PairRows {
  uint64_t* data;
  uint32_t limbs, n;

  __device__ __forceinline__ auto At(const Tile& tile, uint32_t, const Limb&) const {
    uint64_t* const row = data + (uint64_t{2} * tile.entry * limbs + tile.limb) * n;
    const uint64_t half = uint64_t{limbs} * n;
    return [row, half](uint32_t k, uint64_t first, uint64_t second) { row[k] = first, row[half + k] = second; };
  }
};

constexpr uint32_t kKeyWords = 2;  // of a thread

// A tile is kKeyWords * blockDim.x words of a row. Reads and writes reduced words.
template <typename Own, typename Out>
__global__ void __launch_bounds__(kThreads)
    MultiplyByKey(Grid grid, SwitchBatch batch, DigitRows digits, KeyRows key, Own own, Out out, const Limb* limbs) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint32_t n = digits.n, entry = batch.Entry(0, tile.entry), other = batch.Entry(3, tile.entry);
  const bool special = tile.limb >= digits.moduli;
  const uint64_t row = uint64_t{tile.limb} * n;
  const uint64_t* const digit_row = digits.data + uint64_t{entry} * digits.digits * digits.limbs * n + row;
  const uint64_t* const first_row =
      key.first + batch.Entry(1, tile.entry) * key.first_entry + row + (special ? uint64_t{key.first_skip} * n : 0);
  const uint64_t* const second_row =
      key.second + batch.Entry(2, tile.entry) * key.second_entry + row + (special ? uint64_t{key.second_skip} * n : 0);
  const uint32_t own_digit = special ? digits.digits : tile.limb / digits.digit_size;
  const uint32_t start = tile.index * kKeyWords * blockDim.x + threadIdx.x;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using S = SumOf<A>;
    const typename A::Modulus q = A::ModulusOf(limb);
    const auto own_at = own.template At<A>(tile, entry, other, limb, q);
    typename A::Word own_words[kKeyWords];
    typename S::Sum first[kKeyWords], second[kKeyWords];
#pragma unroll
    for (uint32_t each = 0; each < kKeyWords; ++each) {
      const uint32_t k = start + each * blockDim.x;
      const OwnWords<A> words = k < n ? own_at(k) : OwnWords<A>{0, 0, 0};
      own_words[each] = words.own;
      first[each] = S::From(words.first);
      second[each] = S::From(words.second);
    }
    int products = 0;
    for (uint32_t d = 0; d < digits.digits; ++d) {
      const uint64_t* const x = digit_row + uint64_t{d} * digits.limbs * n;
      const uint64_t *const b = first_row + d * key.first_digit, *const a = second_row + d * key.second_digit;
      if (products == S::kProducts) {
#pragma unroll
        for (uint32_t each = 0; each < kKeyWords; ++each) S::Settle(first[each], q), S::Settle(second[each], q);
        products = 0;
      }
#pragma unroll
      for (uint32_t each = 0; each < kKeyWords; ++each) {
        const uint32_t k = start + each * blockDim.x;
        if (k >= n) continue;
        const typename A::Word word = d == own_digit ? own_words[each] : A::Load(x[k]);
        S::Add(first[each], word, A::Load(b[k]), q);
        S::Add(second[each], word, A::Load(a[k]), q);
      }
      ++products;
    }
    const auto write = out.At(tile, other, limb);
#pragma unroll
    for (uint32_t each = 0; each < kKeyWords; ++each) {
      const uint32_t k = start + each * blockDim.x;
      if (k < n) write(k, S::Reduced(first[each], q), S::Reduced(second[each], q));
    }
  });
}

// One launch for every limb and entry; neighbouring entries with one key find it in the cache.
template <typename Own, typename Out>
void LaunchMultiplyByKey(Call& call, const SwitchBatch& batch, const DigitRows& digits, const KeyRows& key,
                         const Own& own, const Out& out, const Limb* limbs) {
  const uint32_t threads = std::min(kThreads, (digits.n + kKeyWords - 1) / kKeyWords);
  const Grid grid{(digits.n + kKeyWords * threads - 1) / (kKeyWords * threads), batch.count, digits.limbs};
  call.Launch(MultiplyByKey<Own, Out>, grid.blocks(), dim3(threads), 0, grid, batch, digits, key, own, out, limbs);
}

}  // namespace fhejax
