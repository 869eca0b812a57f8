// Loops of coding.h in AVX-512 without 52-bit products, eight lanes: for coding_avx512.cc and coding_ifma.cc.

#include <immintrin.h>

#include "cpu/coding_generic.h"

namespace fhejax {
namespace {

constexpr int64_t kLanes = 8;
constexpr uint64_t kMask = (uint64_t{1} << 52) - 1;

inline __m512i Set(uint64_t x) { return _mm512_set1_epi64(static_cast<long long>(x)); }
inline __m512i Load(const void* x) { return _mm512_loadu_si512(x); }
inline void Store(void* x, __m512i value) { _mm512_storeu_si512(x, value); }
inline __m512i Zero() { return _mm512_setzero_si512(); }

bool RoundProduct512(const double* a, int64_t n, const Float& scale, uint64_t* low, uint64_t* high) {
  if (n % kLanes) return RoundProductRow(a, n, scale, low, high);
  const __m512i half = Set(0xFFFFFFFF), factor_low = Set(scale.mantissa), factor_high = Set(scale.mantissa >> 32);
  const __m512i one = Set(1), bias = Set(static_cast<uint64_t>(1075 - scale.exponent));
  __m512i largest = Zero();
  for (int64_t i = 0; i < n; i += kLanes) {
    const __m512i bits = Load(a + i);
    const __m512i field = _mm512_and_si512(_mm512_srli_epi64(bits, 52), Set(0x7FF));
    const __mmask8 normal = _mm512_test_epi64_mask(field, field);
    const __m512i fraction = _mm512_and_si512(bits, Set(kMask));
    const __m512i mantissa = _mm512_mask_or_epi64(fraction, normal, fraction, Set(uint64_t{1} << 52));
    // The product by halves; every sum is below 2^64, since the upper halves are below 2^21.
    const __m512i upper = _mm512_srli_epi64(mantissa, 32);
    const __m512i bottom = _mm512_mul_epu32(mantissa, factor_low);
    const __m512i middle = _mm512_add_epi64(
        _mm512_add_epi64(_mm512_mul_epu32(mantissa, factor_high), _mm512_mul_epu32(upper, factor_low)),
        _mm512_srli_epi64(bottom, 32));
    const __m512i product_low =
        _mm512_or_si512(_mm512_and_si512(bottom, half), _mm512_slli_epi64(middle, 32));
    const __m512i product_high =
        _mm512_add_epi64(_mm512_mul_epu32(upper, factor_high), _mm512_srli_epi64(middle, 32));
    // down = how far to the right; exponent = field - bias.
    const __m512i exponent = _mm512_sub_epi64(_mm512_max_epu64(field, one), bias);
    largest = _mm512_max_epi64(largest, exponent);
    const __m512i down = _mm512_min_epi64(_mm512_max_epi64(_mm512_sub_epi64(Zero(), exponent), Zero()), Set(107));
    // Twice the product, shifted; a shift by 64 or more, or by a negative number, gives 0.
    const __m512i twice_low = _mm512_slli_epi64(product_low, 1);
    const __m512i twice_high = _mm512_or_si512(_mm512_slli_epi64(product_high, 1), _mm512_srli_epi64(product_low, 63));
    const __m512i left = _mm512_sub_epi64(Set(64), down), beyond = _mm512_sub_epi64(down, Set(64));
    const __m512i shifted_low =
        _mm512_or_si512(_mm512_srlv_epi64(twice_low, down),
                        _mm512_or_si512(_mm512_sllv_epi64(twice_high, left), _mm512_srlv_epi64(twice_high, beyond)));
    const __m512i shifted_high = _mm512_srlv_epi64(twice_high, down);
    const __m512i sum_low = _mm512_add_epi64(shifted_low, one);
    const __mmask8 carry = _mm512_testn_epi64_mask(sum_low, sum_low);
    const __m512i sum_high = _mm512_mask_add_epi64(shifted_high, carry, shifted_high, one);
    Store(low + i, _mm512_or_si512(_mm512_srli_epi64(sum_low, 1), _mm512_slli_epi64(sum_high, 63)));
    Store(high + i, _mm512_or_si512(_mm512_srli_epi64(sum_high, 1), _mm512_and_si512(bits, Set(kSign))));
  }
  return _mm512_reduce_max_epi64(largest) > 0;
}

// Eight 128-bit numbers: their lower and their upper halves.
inline void LoadNumbers(const uint32_t* words, __m512i& low, __m512i& high) {
  const __m512i a = Load(words), b = Load(words + 16);
  low = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
  high = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
}

constexpr int kTogether = 4;  // registers of numbers compared with one threshold

void Gaussian512(const uint32_t* words, int64_t n, const uint64_t* thresholds, int64_t count, int16_t* small) {
  if (n % (kTogether * kLanes)) return GaussianRow(words, n, thresholds, count, small);
  const __m512i one = Set(1);
  for (int64_t i = 0; i < n; i += kTogether * kLanes) {
    __m512i low[kTogether], high[kTogether], magnitude[kTogether];
    __mmask8 sign[kTogether];
    for (int k = 0; k < kTogether; ++k) {
      LoadNumbers(words + 4 * (i + k * kLanes), low[k], high[k]);
      sign[k] = _mm512_movepi64_mask(high[k]);
      high[k] = _mm512_and_si512(high[k], Set(~kSign));
      magnitude[k] = Zero();
    }
    for (int64_t t = 0; t < count; ++t) {
      const __m512i top = Set(thresholds[2 * t]), bottom = Set(thresholds[2 * t + 1]);
      const __m512i next = _mm512_add_epi64(top, one);
      for (int k = 0; k < kTogether; ++k) {  // the upper half reaches the threshold's, plus the lower half's borrow
        const __mmask8 borrow = _mm512_cmplt_epu64_mask(low[k], bottom);
        const __mmask8 reached = _mm512_cmpge_epu64_mask(high[k], _mm512_mask_mov_epi64(top, borrow, next));
        magnitude[k] = _mm512_mask_add_epi64(magnitude[k], reached, magnitude[k], one);
      }
    }
    for (int k = 0; k < kTogether; ++k) {
      const __m512i value = _mm512_mask_sub_epi64(magnitude[k], sign[k], Zero(), magnitude[k]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(small + i + k * kLanes), _mm512_cvtepi64_epi16(value));
    }
  }
}

}  // namespace
}  // namespace fhejax
