// Arithmetic modulo a word-size prime, shared by CPU and CUDA kernels.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FHEJAX_INLINE __host__ __device__ __forceinline__
#else
// Internal linkage: no copy compiled for one instruction set is ever linked into code for another.
#define FHEJAX_INLINE static inline
#endif

namespace fhejax {

FHEJAX_INLINE uint64_t MultiplyHigh(uint64_t a, uint64_t b) {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b);
#else
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
#endif
}

// [0, 2m) -> [0, m), without a branch.
FHEJAX_INLINE uint64_t Reduce(uint64_t x, uint64_t m) {
  const uint64_t y = x - m;
  return y < x ? y : x;
}

// A constant factor w < q with its Shoup companion floor(w 2^64 / q).
struct Factor {
  uint64_t value, companion;
};

// x * w mod q, left in [0, 2q). Any x; q < 2^62. (Harvey 2014, section 4)
FHEJAX_INLINE uint64_t MultiplyLazy(uint64_t x, Factor w, uint64_t q) {
  return x * w.value - MultiplyHigh(x, w.companion) * q;
}

// An unsigned 128-bit sum of products.
struct Wide {
  uint64_t low, high;
};

FHEJAX_INLINE Wide MultiplyWide(uint64_t a, uint64_t b) { return {a * b, MultiplyHigh(a, b)}; }

FHEJAX_INLINE void Accumulate(Wide& sum, uint64_t a, uint64_t b) {
  const Wide product = MultiplyWide(a, b);
  sum.low += product.low;
  sum.high += product.high + (sum.low < product.low);
}

// A prime q < 2^61 with what its reductions need; L is its bit length.
struct Modulus {
  uint64_t value;
  uint64_t mu;     // floor(2^(L + 62) / q) <= 2^63
  int shift;       // L - 2
  Factor one;      // 1
  Factor word;     // 2^64 mod q
  Factor part;     // 2^52 mod q
};

// x mod q for x = a b with a, b < q: reduced. (Barrett; the estimate misses the quotient by less than 2.)
FHEJAX_INLINE uint64_t ReduceProduct(Wide x, const Modulus& q) {
  const uint64_t head = (x.high << (64 - q.shift)) | (x.low >> q.shift);
  return Reduce(x.low - MultiplyHigh(head, q.mu) * q.value, q.value);
}

// a * b mod q for a, b < q: reduced.
FHEJAX_INLINE uint64_t Multiply(uint64_t a, uint64_t b, const Modulus& q) {
  return ReduceProduct(MultiplyWide(a, b), q);
}

// Any x < 2^128: reduced. Two lazy products in [0, 2q) each, so their sum is below 4q < 2^63.
FHEJAX_INLINE uint64_t ReduceWide(Wide x, const Modulus& q) {
  const uint64_t sum = MultiplyLazy(x.high, q.word, q.value) + MultiplyLazy(x.low, q.one, q.value);
  return Reduce(Reduce(sum, 2 * q.value), q.value);
}

// So many products of two residues below 2^61 fit into 128 bits.
constexpr int kWideTerms = 64;

}  // namespace fhejax
