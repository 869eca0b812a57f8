// The loops of coding.h in plain C++. Each coding_*.cc compiles this file for one instruction set, with FHEJAX_CODING
// naming the table; everything lives in an unnamed namespace, so that no instance compiled for one instruction set is
// ever linked into another.

#include <algorithm>
#include <cstring>

#include "cpu/coding.h"
#include "cpu/embedding_generic.h"

namespace fhejax {
namespace {

constexpr uint64_t kSign = uint64_t{1} << 63;

inline uint64_t Bits(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline double FromBits(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

bool RoundProductRow(const double* a, int64_t n, const Float& scale, uint64_t* low, uint64_t* high) {
  uint64_t shifted = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t bits = Bits(a[i]), field = bits >> 52 & 0x7FF;
    const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | static_cast<uint64_t>(field != 0) << 52;
    const unsigned __int128 product = static_cast<unsigned __int128>(mantissa) * scale.mantissa;  // < 2^106
    const int64_t exponent = static_cast<int64_t>(std::max<uint64_t>(field, 1)) - 1075 + scale.exponent;
    const int64_t down = std::min<int64_t>(std::max<int64_t>(-exponent, 0), 107);
    const unsigned __int128 magnitude = ((product << 1 >> down) + 1) >> 1;
    low[i] = static_cast<uint64_t>(magnitude);
    high[i] = static_cast<uint64_t>(magnitude >> 64) | (bits & kSign);
    shifted |= static_cast<uint64_t>(exponent > 0);
  }
  return shifted != 0;
}

void ReduceSignedRow(const uint64_t* low, const uint64_t* high, int64_t n, const CodingModulus& q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t r = ReduceWide({low[i], high[i] & ~kSign}, q.wide);
    const uint64_t mask = -(high[i] >> 63);
    out[i] = (r & ~mask) | (Reduce(q.wide.value - r, q.wide.value) & mask);
  }
}

// Digit i, from the digits below it and the residues x.
void Digits(const DigitRow& row, int64_t i, const uint64_t* x, int64_t n, uint64_t* digits) {
  using Wide128 = unsigned __int128;
  constexpr int64_t kTerms = kWideTerms - 2;  // besides the first one, which is a product or reduced
  const uint64_t* const factors = row.factors.data();
  for (int64_t k = 0; k < n; ++k) {
    Wide128 sum = static_cast<Wide128>(x[k]) * factors[i];
    for (int64_t first = 0; first < i; first += kTerms) {
      if (first) sum = ReduceWide({static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)}, row.modulus.wide);
      for (int64_t j = first; j < std::min(first + kTerms, i); ++j)
        sum += static_cast<Wide128>(digits[j * kCentredChunk + k]) * factors[j];
    }
    digits[i * kCentredChunk + k] =
        ReduceWide({static_cast<uint64_t>(sum), static_cast<uint64_t>(sum >> 64)}, row.modulus.wide);
  }
}

// The centred integers with these digits. Negative numbers by their complement: Q - x has digits q_i - 1 - v_i, plus 1.
void CentredSums(const uint64_t* digits, int64_t n, const MixedRadixTable& table, const double* places, double* out) {
  const auto limbs = static_cast<int64_t>(table.size());
  uint64_t negative[kCentredChunk] = {};
  for (int64_t i = 0; i < limbs; ++i) {  // compared with (Q - 1) / 2, whose digits are (q_i - 1) / 2, lowest first
    const uint64_t half = table[i].modulus.wide.value / 2;
    const uint64_t* const row = digits + i * kCentredChunk;
    for (int64_t k = 0; k < n; ++k) {  // all are below 2^62, so the top bit of a difference tells which is larger
      const uint64_t above = (half - row[k]) >> 63, below = (row[k] - half) >> 63;
      negative[k] = above | (negative[k] & ~below);
    }
  }
  std::fill_n(out, n, 0.0);
  for (int64_t i = 0; i < limbs; ++i) {
    const uint64_t complement = table[i].modulus.wide.value - (i > 0);
    const uint64_t* const row = digits + i * kCentredChunk;
    for (int64_t k = 0; k < n; ++k) {
      const uint64_t digit = (row[k] & (negative[k] - 1)) | ((complement - row[k]) & -negative[k]);
      // A place may be infinite, and nothing of it is nothing.
      const double term = static_cast<double>(static_cast<int64_t>(digit)) * places[i];
      out[k] += FromBits(Bits(term) & -((-digit) >> 63));
    }
  }
  for (int64_t k = 0; k < n; ++k) out[k] *= 1.0 - 2.0 * static_cast<double>(static_cast<int64_t>(negative[k]));
}

void CentredValues(const uint64_t* x, int64_t stride, int64_t n, const MixedRadixTable& table, const double* places,
                   uint64_t* digits, double* out) {
  const auto limbs = static_cast<int64_t>(table.size());
  for (int64_t i = 0; i < limbs; ++i) Digits(table[i], i, x + i * stride, n, digits);
  CentredSums(digits, n, table, places, out);
}

inline uint64_t Number(const uint32_t* words) { return words[0] | uint64_t{words[1]} << 32; }

void ReduceNumbers(const uint32_t* words, int64_t n, const CodingModulus& q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ReduceWide({Number(words + 4 * i), Number(words + 4 * i + 2)}, q.wide);
}

void TernaryRow(const uint32_t* words, int64_t n, int16_t* small) {
  for (int64_t i = 0; i < n; ++i) {
    // floor(3 r / 2^64) by halves: what the lower half carries into the upper one is below 3.
    const uint64_t carry = (3 * uint64_t{words[2 * i]}) >> 32;
    small[i] = static_cast<int16_t>(static_cast<int64_t>((3 * uint64_t{words[2 * i + 1]} + carry) >> 32) - 1);
  }
}

void GaussianRow(const uint32_t* words, int64_t n, const uint64_t* thresholds, int64_t count, int16_t* small) {
  using Wide128 = unsigned __int128;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t low = Number(words + 4 * i), high = Number(words + 4 * i + 2);
    const Wide128 u = static_cast<Wide128>(high & ~kSign) << 64 | low;
    int64_t magnitude = count;
    // Both are at most 2^127, so the top bit of the difference tells which is larger: subtractions, no comparison.
    for (int64_t k = 0; k < count; ++k) {
      const Wide128 threshold = static_cast<Wide128>(thresholds[2 * k]) << 64 | thresholds[2 * k + 1];
      magnitude -= static_cast<int64_t>((u - threshold) >> 127);
    }
    const int64_t sign = static_cast<int64_t>(high) >> 63;
    small[i] = static_cast<int16_t>((magnitude ^ sign) - sign);
  }
}

void SpreadRow(const int16_t* small, int64_t n, uint64_t q, uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = small[i];
    out[i] = static_cast<uint64_t>(value + (static_cast<int64_t>(q) & value >> 63));
  }
}

void SpreadTernaryRow(const int16_t* small, int64_t n, uint64_t factor, uint64_t q, uint64_t* out) {
  const uint64_t opposite = Reduce(q - factor, q);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = small[i];
    out[i] = (factor & static_cast<uint64_t>(-value >> 63)) | (opposite & static_cast<uint64_t>(value >> 63));
  }
}

void CentredErrorRow(const uint64_t* x, const int16_t* e, int64_t n, uint64_t p, int64_t* out) {
  const auto q = static_cast<int64_t>(p), half = q / 2;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t error = e[i];
    int64_t total = static_cast<int64_t>(x[i]) + error;  // in (-p, 2p)
    total -= q & (half - total) >> 63;
    total -= q & (half - total) >> 63;
    total += q & (total + half) >> 63;
    out[i] = error - total;
  }
}

void ScaleSignedRow(const int64_t* d, int64_t n, Factor factor, const CodingModulus& q, uint64_t* out) {
  const uint64_t modulus = q.wide.value;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t sign = d[i] >> 63;
    const auto magnitude = static_cast<uint64_t>((d[i] ^ sign) - sign);
    const uint64_t r = Reduce(MultiplyLazy(magnitude, factor, modulus), modulus);
    out[i] = (r & static_cast<uint64_t>(~sign)) | (Reduce(modulus - r, modulus) & static_cast<uint64_t>(sign));
  }
}

}  // namespace

#ifdef FHEJAX_CODING
extern const CodingKernels FHEJAX_CODING = {
    RoundProductRow, ReduceSignedRow, CentredValues, CoefficientsToSlots, SlotsToCoefficients, ReduceNumbers,
    TernaryRow,      GaussianRow,     SpreadRow,     SpreadTernaryRow,    CentredErrorRow,     ScaleSignedRow,
};
#endif

}  // namespace fhejax
