// Constants of a modulus and twiddle factors, made once and kept for the life of the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "common/modular.h"

namespace fhejax {

uint64_t MultiplySlow(uint64_t a, uint64_t b, uint64_t q);
uint64_t Power(uint64_t base, uint64_t exponent, uint64_t q);
uint64_t Inverse(uint64_t a, uint64_t q);  // q prime
Factor MakeFactor(uint64_t value, uint64_t q);
Modulus MakeModulus(uint64_t q);

// Factors w below a prime below 2^50, with companions floor(w 2^52 / q), for kernels of 52-bit products.
struct NarrowRoots {
  std::vector<uint64_t> values, companions;
};

// The powers psi^brv(i) and psi^-brv(i), i < degree, psi the smallest primitive 2N-th root: in the one form that the
// active kernels use for this prime.
struct NttTable {
  int64_t degree;
  Modulus modulus;
  Factor inverse_degree;  // 1/N
  std::vector<Factor> roots, inverse_roots;
  NarrowRoots narrow_roots, narrow_inverse_roots;
};

const NttTable& NttTableFor(int64_t degree, uint64_t q);
const Modulus& ModulusFor(uint64_t q);

// A map from keys to values that are made at the first request and never freed: safe to hold by reference.
template <typename Key, typename Value>
class Cache {
 public:
  template <typename Make>
  const Value& Get(const Key& key, const Make& make) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& entry = values_[key];
    if (!entry) entry = std::make_unique<const Value>(make());
    return *entry;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<const Value>> values_;
};

}  // namespace fhejax
