// ChaCha20 with two times sixteen blocks side by side. The rounds of sixteen are a chain: where an instruction takes two
// cycles, half of them would be spent waiting.
#pragma once

#include <immintrin.h>

#include "common/chacha20.h"
#include "cpu/unroll.h"

namespace fhejax {
namespace {

using Lanes = uint32_t __attribute__((vector_size(64)));

struct TwoLanes {
  Lanes first, second;

  FHEJAX_FORCE_INLINE TwoLanes operator+(uint32_t b) const { return {first + b, second + b}; }
  FHEJAX_FORCE_INLINE TwoLanes operator+(const TwoLanes& b) const { return {first + b.first, second + b.second}; }
  FHEJAX_FORCE_INLINE TwoLanes operator|(const TwoLanes& b) const { return {first | b.first, second | b.second}; }
  FHEJAX_FORCE_INLINE TwoLanes operator<<(int bits) const { return {first << bits, second << bits}; }
  FHEJAX_FORCE_INLINE TwoLanes operator>>(int bits) const { return {first >> bits, second >> bits}; }
  FHEJAX_FORCE_INLINE void operator+=(const TwoLanes& b) { first += b.first, second += b.second; }
  FHEJAX_FORCE_INLINE void operator^=(const TwoLanes& b) { first ^= b.first, second ^= b.second; }
};

// rows[i] holds word i of sixteen blocks; block b goes to out + 16 b.
FHEJAX_FORCE_INLINE void StoreBlocks(const __m512i* rows, uint32_t* out) {
  __m512i a[16], b[16];
  Unroll<8>(FHEJAX_EACH(i) {
    a[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  });
  // b[4 g + j]: words 4 g .. 4 g + 3 of the blocks j, 4 + j, 8 + j and 12 + j.
  Unroll<4>(FHEJAX_EACH(g) {
    b[4 * g] = _mm512_unpacklo_epi64(a[4 * g], a[4 * g + 2]);
    b[4 * g + 1] = _mm512_unpackhi_epi64(a[4 * g], a[4 * g + 2]);
    b[4 * g + 2] = _mm512_unpacklo_epi64(a[4 * g + 1], a[4 * g + 3]);
    b[4 * g + 3] = _mm512_unpackhi_epi64(a[4 * g + 1], a[4 * g + 3]);
  });
  Unroll<4>(FHEJAX_EACH(j) {
    constexpr int kEven = 0x88, kOdd = 0xdd;
    const __m512i low[] = {_mm512_shuffle_i32x4(b[j], b[4 + j], kEven), _mm512_shuffle_i32x4(b[j], b[4 + j], kOdd)};
    const __m512i high[] = {_mm512_shuffle_i32x4(b[8 + j], b[12 + j], kEven),
                            _mm512_shuffle_i32x4(b[8 + j], b[12 + j], kOdd)};
    Unroll<2>(FHEJAX_EACH(i) {
      _mm512_storeu_si512(out + 16 * (4 * i + j), _mm512_shuffle_i32x4(low[i], high[i], kEven));
      _mm512_storeu_si512(out + 16 * (8 + 4 * i + j), _mm512_shuffle_i32x4(low[i], high[i], kOdd));
    });
  });
}

void ChaCha20Blocks512(const uint32_t* key, const uint32_t* nonce, uint32_t first, int64_t count, uint32_t* out) {
  constexpr int64_t kTogether = 32;
  const int64_t whole = count / kTogether * kTogether;
  const Lanes numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t block = 0; block < whole; block += kTogether) {
    const Lanes counter = numbers + (first + static_cast<uint32_t>(block));
    TwoLanes words[16];
    ChaCha20Block(key, TwoLanes{counter, counter + 16}, nonce, words);
    __m512i rows[2][16];
    Unroll<16>(FHEJAX_EACH(i) {
      rows[0][i] = reinterpret_cast<__m512i>(words[i].first);
      rows[1][i] = reinterpret_cast<__m512i>(words[i].second);
    });
    StoreBlocks(rows[0], out + 16 * block);
    StoreBlocks(rows[1], out + 16 * (block + 16));
  }
  if (whole < count) ChaCha20Blocks(key, nonce, first + static_cast<uint32_t>(whole), count - whole, out + 16 * whole);
}

}  // namespace
}  // namespace fhejax
