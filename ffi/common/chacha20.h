// The ChaCha20 block function (RFC 8439, section 2.3), shared by CPU and CUDA kernels.
#pragma once

#include <cstdint>

#include "common/modular.h"

namespace fhejax {

template <typename Word>
FHEJAX_INLINE void QuarterRound(Word& a, Word& b, Word& c, Word& d) {
  a += b, d ^= a, d = d << 16 | d >> 16;
  c += d, b ^= c, b = b << 12 | b >> 20;
  a += b, d ^= a, d = d << 8 | d >> 24;
  c += d, b ^= c, b = b << 7 | b >> 25;
}

// Word is uint32_t, or a vector of them: one block a lane. key has 8 words, nonce 3, out 16.
template <typename Word>
FHEJAX_INLINE void ChaCha20Block(const uint32_t* key, const Word& counter, const uint32_t* nonce, Word* out) {
  Word start[16] = {Word{} + 0x61707865u, Word{} + 0x3320646eu, Word{} + 0x79622d32u, Word{} + 0x6b206574u};
  for (int i = 0; i < 8; ++i) start[4 + i] = Word{} + key[i];
  start[12] = counter;
  for (int i = 0; i < 3; ++i) start[13 + i] = Word{} + nonce[i];
  Word x[16];
  for (int i = 0; i < 16; ++i) x[i] = start[i];
  for (int round = 0; round < 10; ++round) {
    QuarterRound(x[0], x[4], x[8], x[12]);
    QuarterRound(x[1], x[5], x[9], x[13]);
    QuarterRound(x[2], x[6], x[10], x[14]);
    QuarterRound(x[3], x[7], x[11], x[15]);
    QuarterRound(x[0], x[5], x[10], x[15]);
    QuarterRound(x[1], x[6], x[11], x[12]);
    QuarterRound(x[2], x[7], x[8], x[13]);
    QuarterRound(x[3], x[4], x[9], x[14]);
  }
  for (int i = 0; i < 16; ++i) out[i] = x[i] + start[i];
}

}  // namespace fhejax
