// The embedding's FFT for vectors of doubles, compiled for each instruction set by coding_*.cc: the butterflies of
// embedding.cc, each with the same operations on the same numbers, so that all instruction sets give the same bits.
//
// In bit-reversed order the stages of half = 1, 2, 4 stay within eight neighbours; in natural order these stand n/8
// apart. So one pass does these three stages on eight rows of natural order, and the reversal with them. The others run
// block by block while a block stays in the first cache, then over the whole, two at a time.

#include <algorithm>
#include <cstring>

#include "common/embedding_table.h"

namespace fhejax {
namespace {

#if defined(__AVX512F__)
constexpr int64_t kDoubles = 8;
#elif defined(__AVX__)
constexpr int64_t kDoubles = 4;
#else
constexpr int64_t kDoubles = 2;
#endif
using Doubles = double __attribute__((vector_size(kDoubles * sizeof(double))));

constexpr int64_t kCachedSlots = 1024;  // of one block: 16 KiB, and as much of constants

inline Doubles LoadDoubles(const double* x) {
  Doubles value;
  std::memcpy(&value, x, sizeof value);
  return value;
}

inline void StoreDoubles(double* x, const Doubles& value) { std::memcpy(x, &value, sizeof value); }

struct Complex {
  Doubles re, im;
};

inline Complex LoadComplex(const double* re, const double* im, int64_t i) {
  return {LoadDoubles(re + i), LoadDoubles(im + i)};
}

inline void StoreComplex(double* re, double* im, int64_t i, const Complex& z) {
  StoreDoubles(re + i, z.re);
  StoreDoubles(im + i, z.im);
}

// (a, b) -> (a + w b, a - w b)
inline void Forward(Complex& a, Complex& b, const Complex& w) {
  const Doubles re = b.re * w.re - b.im * w.im, im = b.re * w.im + b.im * w.re;
  b = {a.re - re, a.im - im};
  a = {a.re + re, a.im + im};
}

// (a, b) -> (a + b, conj(w) (a - b))
inline void Backward(Complex& a, Complex& b, const Complex& w) {
  const Doubles re = a.re - b.re, im = a.im - b.im;
  a = {a.re + b.re, a.im + b.im};
  b = {re * w.re + im * w.im, im * w.re - re * w.im};
}

inline Complex Twiddles(const EmbeddingTable& table, int64_t i) {
  return LoadComplex(table.cosine.data(), table.sine.data(), i);
}

inline Complex Twiddle(const EmbeddingTable& table, int64_t i) {
  return {Doubles{} + table.cosine[i], Doubles{} + table.sine[i]};
}

// The stage of `half`, over `size` slots.
template <bool kForward>
void OneStage(double* re, double* im, int64_t size, int64_t half, const EmbeddingTable& table) {
  for (int64_t block = 0; block < size; block += 2 * half)
    for (int64_t j = 0; j < half; j += kDoubles) {
      const int64_t at = block + j;
      Complex a = LoadComplex(re, im, at), b = LoadComplex(re, im, at + half);
      const Complex w = Twiddles(table, half + j);
      kForward ? Forward(a, b, w) : Backward(a, b, w);
      StoreComplex(re, im, at, a);
      StoreComplex(re, im, at + half, b);
    }
}

// The stages of `half` and 2 half, the first of them first if forward.
template <bool kForward>
void TwoStages(double* re, double* im, int64_t size, int64_t half, const EmbeddingTable& table) {
  for (int64_t block = 0; block < size; block += 4 * half)
    for (int64_t j = 0; j < half; j += kDoubles) {
      Complex z[4];
      for (int k = 0; k < 4; ++k) z[k] = LoadComplex(re, im, block + k * half + j);
      const Complex inner = Twiddles(table, half + j);
      const Complex outer[] = {Twiddles(table, 2 * half + j), Twiddles(table, 3 * half + j)};
      if constexpr (kForward) {
        Forward(z[0], z[1], inner), Forward(z[2], z[3], inner);
        Forward(z[0], z[2], outer[0]), Forward(z[1], z[3], outer[1]);
      } else {
        Backward(z[0], z[2], outer[0]), Backward(z[1], z[3], outer[1]);
        Backward(z[0], z[1], inner), Backward(z[2], z[3], inner);
      }
      for (int k = 0; k < 4; ++k) StoreComplex(re, im, block + k * half + j, z[k]);
    }
}

// The stages of first <= half < last, over `size` slots.
void ForwardStages(double* re, double* im, int64_t size, int64_t first, int64_t last, const EmbeddingTable& table) {
  for (; 4 * first <= last; first *= 4) TwoStages<true>(re, im, size, first, table);
  if (first < last) OneStage<true>(re, im, size, first, table);
}

void BackwardStages(double* re, double* im, int64_t size, int64_t first, int64_t last, const EmbeddingTable& table) {
  for (; 4 * first <= last; last /= 4) TwoStages<false>(re, im, size, last / 4, table);
  if (first < last) OneStage<false>(re, im, size, first, table);
}

constexpr int kReversed[8] = {0, 4, 2, 6, 1, 5, 3, 7};

// to[places[lane] + r] = z[r][lane], by way of memory: so few shuffles would not pay.
inline void Scatter(const Doubles (&z)[8], const uint32_t* places, double* to) {
  double rows[8][kDoubles];
  std::memcpy(rows, z, sizeof rows);
  for (int64_t lane = 0; lane < kDoubles; ++lane)
    for (int r = 0; r < 8; ++r) to[places[lane] + r] = rows[r][lane];
}

inline void Gather(const double* from, const uint32_t* places, Doubles (&z)[8]) {
  double rows[8][kDoubles];
  for (int64_t lane = 0; lane < kDoubles; ++lane)
    for (int r = 0; r < 8; ++r) rows[r][lane] = from[places[lane] + r];
  std::memcpy(z, rows, sizeof rows);
}

// Real and imaginary parts in natural order -> in bit-reversed order, after the stages of half = 1, 2, 4.
void FirstStages(const double* a_re, const double* a_im, const EmbeddingTable& table, double* re, double* im) {
  const int64_t eighth = table.slots / 8;
  Complex w[8];
  for (int i = 1; i < 8; ++i) w[i] = Twiddle(table, i);
  for (int64_t k = 0; k < eighth; k += kDoubles) {
    Complex z[8];
    for (int r = 0; r < 8; ++r) z[r] = LoadComplex(a_re, a_im, kReversed[r] * eighth + k);
    for (int half = 1; half < 8; half *= 2)
      for (int r = 0; r < 8; ++r)
        if (!(r & half)) Forward(z[r], z[r + half], w[half + (r & (half - 1))]);
    Doubles parts[2][8];
    for (int r = 0; r < 8; ++r) parts[0][r] = z[r].re, parts[1][r] = z[r].im;
    Scatter(parts[0], &table.reversed[k], re);
    Scatter(parts[1], &table.reversed[k], im);
  }
}

void LastStages(const double* re, const double* im, const EmbeddingTable& table, double* a_re, double* a_im) {
  const int64_t eighth = table.slots / 8;
  Complex w[8];
  for (int i = 1; i < 8; ++i) w[i] = Twiddle(table, i);
  for (int64_t k = 0; k < eighth; k += kDoubles) {
    Doubles parts[2][8];
    Gather(re, &table.reversed[k], parts[0]);
    Gather(im, &table.reversed[k], parts[1]);
    Complex z[8];
    for (int r = 0; r < 8; ++r) z[r] = {parts[0][r], parts[1][r]};
    for (int half = 4; half > 0; half /= 2)
      for (int r = 0; r < 8; ++r)
        if (!(r & half)) Backward(z[r], z[r + half], w[half + (r & (half - 1))]);
    for (int r = 0; r < 8; ++r) StoreComplex(a_re, a_im, kReversed[r] * eighth + k, z[r]);
  }
}

// work: 2 slots doubles; z: the slots, real and imaginary parts in turn.
void CoefficientsToSlots(const double* a_re, const double* a_im, const EmbeddingTable& table, double* work, double* z) {
  const int64_t slots = table.slots, cached = std::min(slots, kCachedSlots);
  double *const re = work, *const im = work + slots;
  FirstStages(a_re, a_im, table, re, im);
  for (int64_t block = 0; block < slots; block += cached)
    ForwardStages(re + block, im + block, cached, 8, cached, table);
  ForwardStages(re, im, slots, cached, slots, table);
  for (int64_t j = 0; j < slots; ++j) {
    z[2 * j] = re[j];
    z[2 * j + 1] = im[j];
  }
}

void SlotsToCoefficients(const double* z, const EmbeddingTable& table, double* work, double* a_re, double* a_im) {
  const int64_t slots = table.slots, cached = std::min(slots, kCachedSlots);
  double *const re = work, *const im = work + slots;
  const double scale = 1.0 / static_cast<double>(slots);  // first, so that no sum overflows
  for (int64_t j = 0; j < slots; ++j) {
    re[j] = z[2 * j] * scale;
    im[j] = z[2 * j + 1] * scale;
  }
  BackwardStages(re, im, slots, cached, slots, table);
  for (int64_t block = 0; block < slots; block += cached)
    BackwardStages(re + block, im + block, cached, 8, cached, table);
  LastStages(re, im, table, a_re, a_im);
}

}  // namespace
}  // namespace fhejax
