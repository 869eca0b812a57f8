// The inner loops in plain C++. Each kernels_*.cc compiles this file for one instruction set, with
// FHEJAX_KERNELS naming the table and FHEJAX_KERNELS_NAME its name (or neither, to use some of the loops beside better
// ones); everything lives in an unnamed namespace, so
// that no instance compiled for one instruction set is ever linked into another.

#include <algorithm>

#include "common/chacha20.h"
#include "cpu/kernels.h"

namespace fhejax {
namespace {

// Keeps values in [0, 4q): even in [0, 4q) -> [0, 2q), odd * w in [0, 2q).
void ForwardButterflies(uint64_t* even, uint64_t* odd, int64_t count, Factor w, uint64_t q) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t u = Reduce(even[i], 2 * q), v = MultiplyLazy(odd[i], w, q);
    even[i] = u + v;
    odd[i] = u - v + 2 * q;
  }
}

// Keeps values in [0, 2q).
void InverseButterflies(uint64_t* even, uint64_t* odd, int64_t count, Factor w, uint64_t q) {
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t u = even[i], v = odd[i];
    even[i] = Reduce(u + v, 2 * q);
    odd[i] = MultiplyLazy(u - v + 2 * q, w, q);
  }
}

inline Factor RootAt(const Roots& roots, int64_t i) { return {roots.values[i], roots.companions[i]}; }

void ForwardNtt(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table) {
  const int64_t n = table.degree;
  const uint64_t q = table.modulus.value;
  for (int64_t row = 0; row < rows; ++row) {
    uint64_t* const x = to[row];
    if (x != from[row]) std::copy_n(from[row], n, x);
    for (int64_t blocks = 1, half = n / 2; blocks < n; blocks *= 2, half /= 2)
      for (int64_t b = 0; b < blocks; ++b)
        ForwardButterflies(x + 2 * b * half, x + (2 * b + 1) * half, half, RootAt(table.roots, blocks + b), q);
    for (int64_t i = 0; i < n; ++i) x[i] = Reduce(Reduce(x[i], 2 * q), q);
  }
}

// Everything is in the head.
inline void ForwardHead(uint64_t* const* rows, int64_t count, const NttTable& table) {
  ForwardNtt(rows, rows, count, table);
}
inline void ForwardTail(uint64_t* const*, int64_t, int64_t, const NttTable&, const Ahead&) {}

void InverseNtt(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale, const NttTable& table) {
  const int64_t n = table.degree;
  const uint64_t q = table.modulus.value;
  for (int64_t row = 0; row < rows; ++row) {
    uint64_t* const x = to[row];
    if (x != from[row]) std::copy_n(from[row], n, x);
    for (int64_t blocks = n / 2, half = 1; blocks > 0; blocks /= 2, half *= 2)
      for (int64_t b = 0; b < blocks; ++b)
        InverseButterflies(x + 2 * b * half, x + (2 * b + 1) * half, half, RootAt(table.inverse_roots, blocks + b), q);
    for (int64_t i = 0; i < n; ++i) x[i] = Reduce(MultiplyLazy(x[i], scale, q), q);
  }
}

void AddRow(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Reduce(a[i] + b[i], q.value);
}

void SubtractRow(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Reduce(a[i] + q.value - b[i], q.value);
}

void MultiplyRow(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Multiply(a[i], b[i], q);
}

void MultiplyAddRow(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                    const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Reduce(Multiply(a[i], b[i], q) + c[i], q.value);
}

void MultiplyFactorRow(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Reduce(MultiplyLazy(a[i], w, q.value), q.value);
}

void SubtractMultiplyRow(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) out[i] = Reduce(MultiplyLazy(a[i] + q.value - b[i], w, q.value), q.value);
}

void SubtractMultiplyPermuteRow(const uint64_t* a, const uint64_t* b, Factor w, const uint64_t* c,
                                const uint32_t* source, uint64_t* out, int64_t n, const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t s = source[i];
    const uint64_t y = Reduce(MultiplyLazy(a[s] + q.value - b[s], w, q.value), q.value);
    out[i] = c ? Reduce(y + c[s], q.value) : y;
  }
}

void PermuteRow(const uint64_t* x, const uint32_t* source, uint64_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[source[i]];
}

void InnerProductRow(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                     const Modulus& q) {
  for (int64_t i = 0; i < n; ++i) {
    Wide sum{0, 0};
    for (int64_t t = 0; t < terms; ++t) {
      if (t && t % (kWideTerms - 1) == 0) sum = {ReduceWide(sum, q), 0};
      Accumulate(sum, a[t][i], b[t][i]);
    }
    out[i] = ReduceWide(sum, q);
  }
}

void Combine(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets, int64_t count,
             int64_t n, bool) {
  for (const ConversionTarget* target = targets; target < targets + count; ++target) {
    const Modulus& q = *target->q;
    for (int64_t i = 0; i < n; ++i) {
      Wide sum = MultiplyWide(v[i], target->last);
      for (int64_t t = 0; t < terms; ++t) {
        if (t && t % (kWideTerms - 2) == 0) sum = {ReduceWide(sum, q), 0};
        Accumulate(sum, y[t][i], target->factors[t]);
      }
      target->out[i] = ReduceWide(sum, q);
    }
  }
}

void OverflowRow(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n) {
  if (terms == 1) {
    for (int64_t i = 0; i < n; ++i) v[i] = y[0][i] > limbs[0].modulus / 2;
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    uint64_t sum = uint64_t{1} << 50;
    for (int64_t t = 0; t < terms; ++t) {
      const uint64_t top = y[t][i] << limbs[t].left >> limbs[t].right;
      sum += MultiplyHigh(top, limbs[t].ratio << 12);
    }
    v[i] = sum >> 51;
  }
}

// Sixteen blocks side by side, one in each lane.
void ChaCha20Blocks(const uint32_t* key, const uint32_t* nonce, uint32_t first, int64_t count, uint32_t* out) {
  using Lanes = uint32_t __attribute__((vector_size(64)));
  for (int64_t block = 0; block < count; block += 16) {
    Lanes counter, words[16];
    for (int lane = 0; lane < 16; ++lane) counter[lane] = first + static_cast<uint32_t>(block + lane);
    ChaCha20Block(key, counter, nonce, words);
    const int64_t lanes = count - block < 16 ? count - block : 16;
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 16; ++i) out[(block + lane) * 16 + i] = words[i][lane];
  }
}

}  // namespace

#ifdef FHEJAX_KERNELS
extern const Kernels FHEJAX_KERNELS = {
    FHEJAX_KERNELS_NAME,
    0,
    ForwardNtt,
    ForwardHead,
    ForwardTail,
    InverseNtt,
    AddRow,
    SubtractRow,
    MultiplyRow,
    MultiplyRow,
    MultiplyAddRow,
    MultiplyFactorRow,
    SubtractMultiplyRow,
    SubtractMultiplyPermuteRow,
    PermuteRow,
    InnerProductRow,
    Combine,
    OverflowRow,
    ChaCha20Blocks,
};
#endif

}  // namespace fhejax
