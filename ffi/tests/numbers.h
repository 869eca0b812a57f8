// What kernels are tried on: the largest primes of their sizes, and residues that are random, extreme or both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cpu/tables.h"

namespace fhejax {

// The ranges of each kind of kernel end at 2^45, 2^50 and 2^61.
constexpr int kBits[] = {20, 30, 45, 46, 50, 51, 61};

enum Fill { kRandom, kLargest, kMixed };
constexpr Fill kFills[] = {kRandom, kLargest, kMixed};

inline void Require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: not what the portable kernels make\n", what.c_str());
  std::abort();
}

inline uint64_t RandomWord() {
  static std::mt19937_64 generator(1);
  return generator();
}

inline uint64_t RandomBelow(uint64_t bound, Fill fill) {
  const uint64_t choice = fill == kMixed ? RandomWord() % 4 : 0;
  if (fill == kLargest || choice == 1) return bound - 1;
  if (choice == 2) return 0;
  return choice == 3 ? bound / 2 : RandomWord() % bound;
}

// In an allocation of its own, so that a step beyond its end is seen.
inline AlignedWords RandomRow(int64_t n, uint64_t bound, Fill fill) {
  AlignedWords row(n);
  for (uint64_t& word : row) word = RandomBelow(bound, fill);
  return row;
}

// The largest primes 1 mod 2n of so many bits, distinct; a size that has no more of them is left out.
inline std::vector<uint64_t> Chain(int64_t n, const std::vector<int>& bits) {
  std::vector<uint64_t> primes;
  const uint64_t step = 2 * static_cast<uint64_t>(n);
  for (const int size : bits) {
    uint64_t q = ((uint64_t{1} << size) - 2) / step * step + 1;
    while (q >> (size - 1) && (std::count(primes.begin(), primes.end(), q) || !IsPrime(q))) q -= step;
    if (q >> (size - 1)) primes.push_back(q);
  }
  return primes;
}

inline std::vector<uint64_t> Chain(int64_t n) { return Chain(n, {std::begin(kBits), std::end(kBits)}); }

void CheckKernels();
void CheckHandlers();

}  // namespace fhejax
