// Random streams, as fhejax/primitives/sampling.py defines them.
#pragma once

#include <cstdint>

#include "common/sampling.h"
#include "cpu/batch.h"
#include "cpu/coding.h"
#include "cpu/kernels.h"

namespace fhejax {

constexpr int64_t kPiece = 1024;  // coefficients of one piece of work: whole blocks in every stream

// One stream: a key and a nonce.
struct Stream {
  const uint32_t* key;
  uint32_t nonce[3];

  // The words of the numbers first..first+count-1 of the stream, `size` words each; `first` begins a block.
  void Read(int64_t first, int64_t count, int64_t size, uint32_t* words) const {
    const int64_t blocks = (count * size + 15) / 16;
    ActiveKernels().chacha20_blocks(key, nonce, static_cast<uint32_t>(first * size / 16), blocks, words);
  }
};

// Coefficients first..first+n-1, n <= kPiece.
inline void DrawUniform(const Stream& stream, int64_t first, int64_t n, const CodingModulus& q, uint64_t* out) {
  uint32_t words[4 * kPiece];
  stream.Read(first, n, 4, words);
  ActiveCoding().reduce_numbers(words, n, q, out);
}

inline void DrawTernary(const Stream& stream, int64_t first, int64_t n, int16_t* small) {
  uint32_t words[2 * kPiece];
  stream.Read(first, n, 2, words);
  ActiveCoding().ternary(words, n, small);
}

inline void DrawGaussian(const Stream& stream, int64_t first, int64_t n, Moduli thresholds, int16_t* small) {
  uint32_t words[4 * kPiece];
  stream.Read(first, n, 4, words);
  ActiveCoding().gaussian(words, n, thresholds.begin(), static_cast<int64_t>(thresholds.size() / 2), small);
}

}  // namespace fhejax
