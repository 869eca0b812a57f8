// Residues in NTT form to centred coefficients, used by decoding and decryption.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/batch.h"
#include "cpu/coding.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"
#include "cpu/scratch.h"

namespace fhejax {

constexpr int64_t kFloatPiece = 1024;  // coefficients that one task works on, all limbs together

// x: the first of `limbs` rows of n residues in coefficient form -> the coefficients first..first+kFloatPiece-1.
inline void CentredPiece(const uint64_t* x, int64_t n, int64_t first, const MixedRadixTable& table,
                         const double* places, double* out) {
  const int64_t end = std::min(first + kFloatPiece, n);
  uint64_t* const digits = TaskScratch(static_cast<int64_t>(table.size()) * kCentredChunk);
  for (int64_t i = first; i < end; i += kCentredChunk)
    ActiveCoding().centred_values(x + i, n, std::min(kCentredChunk, end - i), table, places, digits, out + i);
}

// row(entry, limb, to) returns residues in NTT form, in `to` or elsewhere.
template <typename Row>
void CentredCoefficients(ffi::ThreadPool& pool, int64_t n, int64_t entries, Moduli moduli, Places places, const Row& row,
                         double* out) {
  const auto limbs = static_cast<int64_t>(moduli.size()), pieces = (n + kFloatPiece - 1) / kFloatPiece;
  const MixedRadixTable& table = MixedRadixTableFor({moduli.begin(), moduli.end()});
  // So many entries together that their residues stay in the cache.
  const int64_t together = std::min(entries, std::max<int64_t>((int64_t{1} << 19) / (limbs * n), 1));
  const Scratch scratch(together * limbs * n);
  for (int64_t begin = 0; begin < entries; begin += together) {
    const int64_t count = std::min(together, entries - begin);
    ParallelFor(pool, count * limbs, [&](int64_t task) {
      const int64_t entry = task % count, limb = task / count;
      uint64_t* const to = scratch.get() + (entry * limbs + limb) * n;
      const uint64_t* const from = row(begin + entry, limb, to);
      const NttTable& ntt = NttTableFor(n, moduli[limb]);
      ActiveKernels().inverse_ntt(&from, &to, 1, ntt.inverse_degree, ntt);
    });
    ParallelFor(pool, count * pieces, [&](int64_t task) {
      const int64_t entry = task / pieces, first = task % pieces * kFloatPiece;
      CentredPiece(scratch.get() + entry * limbs * n, n, first, table, places.begin(), out + (begin + entry) * n);
    });
  }
}

}  // namespace fhejax
