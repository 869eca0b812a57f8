// Constants of a modulus and twiddle factors, made once and kept for the life of the process.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "common/cache.h"
#include "common/roots.h"

namespace fhejax {

// Words on a boundary of 64 bytes, so that no vector of them crosses a cache line.
template <typename T>
struct CacheAligned {
  using value_type = T;
  CacheAligned() = default;
  template <typename U>
  CacheAligned(const CacheAligned<U>&) {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* words, size_t) { ::operator delete(words, std::align_val_t{64}); }
  bool operator==(const CacheAligned&) const { return true; }
  bool operator!=(const CacheAligned&) const { return false; }
};
using AlignedWords = std::vector<uint64_t, CacheAligned<uint64_t>>;

// Factors w below q with their companions: floor(w 2^64 / q), or floor(w 2^52 / q) where the table is narrow.
struct Roots {
  AlignedWords values, companions;
};

// The powers psi^brv(i) and psi^-brv(i), i < degree, psi the smallest primitive 2N-th root.
struct NttTable {
  int64_t degree;
  Modulus modulus;
  Factor inverse_degree;  // 1/N
  bool narrow;            // made for kernels of 52-bit products
  Roots roots, inverse_roots;
};

const NttTable& NttTableFor(int64_t degree, uint64_t q);
const Modulus& ModulusFor(uint64_t q);

}  // namespace fhejax
