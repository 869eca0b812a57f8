// The canonical embedding: complex slots <-> real coefficients, by an FFT over the powers of 5.
//
// With u_k = a_k + i a_(k+n), slot j is sum u_k w_j^k, where w_j = exp(i pi 5^j / 2n). Even and odd k are two such
// sums of half the length at w_j^2, and w_(j+n/2) = -w_j: decimation in time with slots in natural order.

#include <algorithm>
#include <complex>
#include <vector>

#include "common/embedding_table.h"
#include "cpu/batch.h"
#include "cpu/coding.h"
#include "cpu/handlers.h"
#include "cpu/parallel.h"
#include "cpu/tables.h"

namespace fhejax {
namespace {

using Complex = std::complex<double>;

const EmbeddingTable& EmbeddingTableFor(int64_t slots) {
  static auto& tables = *new Cache<int64_t, EmbeddingTable>;
  return tables.Get(slots, [=] { return MakeEmbeddingTable(slots); });
}

// (a, b) -> (a + w b, a - w b)
void Butterflies(double* __restrict a_re, double* __restrict a_im, double* __restrict b_re, double* __restrict b_im,
                 const double* __restrict w_re, const double* __restrict w_im, int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
    const double re = b_re[j] * w_re[j] - b_im[j] * w_im[j], im = b_re[j] * w_im[j] + b_im[j] * w_re[j];
    b_re[j] = a_re[j] - re;
    b_im[j] = a_im[j] - im;
    a_re[j] += re;
    a_im[j] += im;
  }
}

// (a, b) -> (a + b, conj(w) (a - b))
void InverseButterflies(double* __restrict a_re, double* __restrict a_im, double* __restrict b_re,
                        double* __restrict b_im, const double* __restrict w_re, const double* __restrict w_im,
                        int64_t count) {
  for (int64_t j = 0; j < count; ++j) {
    const double re = a_re[j] - b_re[j], im = a_im[j] - b_im[j];
    a_re[j] += b_re[j];
    a_im[j] += b_im[j];
    b_re[j] = re * w_re[j] + im * w_im[j];
    b_im[j] = im * w_re[j] - re * w_im[j];
  }
}

// The calling thread's own doubles.
double* Work(int64_t count) {
  thread_local std::vector<double> work;
  if (static_cast<int64_t>(work.size()) < count) work.resize(count);
  return work.data();
}

void SlotsToCoefficients(const Complex* z, int64_t slots, double* out, int64_t degree) {
  const EmbeddingTable& table = EmbeddingTableFor(slots);
  double *const re = Work(4 * slots), *const im = re + slots;
  const int64_t gap = degree / (2 * slots);
  if (gap > 1) std::fill_n(out, degree, 0.0);
  if (slots >= kLeastVectorSlots) {
    double* const a = gap > 1 ? re + 2 * slots : out;
    ActiveCoding().slots_to_coefficients(reinterpret_cast<const double*>(z), table, re, a, a + slots);
    for (int64_t k = 0; gap > 1 && k < 2 * slots; ++k) out[k * gap] = a[k];
    return;
  }
  const double scale = 1.0 / static_cast<double>(slots);  // first, so that no sum overflows
  for (int64_t j = 0; j < slots; ++j) {
    re[j] = z[j].real() * scale;
    im[j] = z[j].imag() * scale;
  }
  for (int64_t half = slots / 2; half > 0; half /= 2)
    for (int64_t a = 0, b = half; a < slots; a += 2 * half, b += 2 * half)
      InverseButterflies(re + a, im + a, re + b, im + b, &table.cosine[half], &table.sine[half], half);
  for (int64_t k = 0; k < slots; ++k) {
    out[k * gap] = re[table.reversed[k]];
    out[(k + slots) * gap] = im[table.reversed[k]];
  }
}

void CoefficientsToSlots(const double* a, int64_t degree, Complex* z, int64_t slots) {
  const EmbeddingTable& table = EmbeddingTableFor(slots);
  double *const re = Work(4 * slots), *const im = re + slots;
  const int64_t gap = degree / (2 * slots);
  if (slots >= kLeastVectorSlots) {
    double* const compact = re + 2 * slots;
    for (int64_t k = 0; gap > 1 && k < 2 * slots; ++k) compact[k] = a[k * gap];
    const double* const from = gap > 1 ? compact : a;
    ActiveCoding().coefficients_to_slots(from, from + slots, table, re, reinterpret_cast<double*>(z));
    return;
  }
  for (int64_t k = 0; k < slots; ++k) {
    re[k] = a[table.reversed[k] * gap];
    im[k] = a[(table.reversed[k] + slots) * gap];
  }
  for (int64_t half = 1; half < slots; half *= 2)
    for (int64_t a = 0, b = half; a < slots; a += 2 * half, b += 2 * half)
      Butterflies(re + a, im + a, re + b, im + b, &table.cosine[half], &table.sine[half], half);
  for (int64_t j = 0; j < slots; ++j) z[j] = {re[j], im[j]};
}

void ToCoefficients(ffi::ThreadPool& pool, const handlers::SlotsToCoefficients& in) {
  ParallelFor(pool, in.batch, [&](int64_t row) {
    SlotsToCoefficients(in.z.data + row * in.slots, in.slots, in.out.data + row * in.n, in.n);
  });
}

void ToSlots(ffi::ThreadPool& pool, const handlers::CoefficientsToSlots& in) {
  ParallelFor(pool, in.batch, [&](int64_t row) {
    CoefficientsToSlots(in.a.data + row * in.n, in.n, in.out.data + row * in.slots, in.slots);
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(SlotsToCoefficients, ToCoefficients);
FHEJAX_CPU_HANDLER(CoefficientsToSlots, ToSlots);

}  // namespace fhejax
