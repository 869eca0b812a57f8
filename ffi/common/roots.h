// Host arithmetic modulo a prime, and the roots of unity of the transforms: what tables are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/modular.h"

namespace fhejax {

uint64_t MultiplySlow(uint64_t a, uint64_t b, uint64_t q);
uint64_t Power(uint64_t base, uint64_t exponent, uint64_t q);
bool IsPrime(uint64_t q);                  // q odd
uint64_t Inverse(uint64_t a, uint64_t q);  // q prime
Factor MakeFactor(uint64_t value, uint64_t q);
Modulus MakeModulus(uint64_t q);
// The product of primes[first], primes[first + 1], .. modulo q.
uint64_t ProductModulo(const std::vector<uint64_t>& primes, size_t first, const Modulus& q);

// psi: the numerically smallest primitive 2N-th root, for which q = 1 mod 2N.
uint64_t TransformRoot(int64_t degree, uint64_t q);

// What gives digit i of x = v_0 + q_0 (v_1 + q_1 (v_2 + ..)) from the residue x_i and the digits below it:
// v_i = x_i f_i + sum over j < i of v_j f_j mod q_i, with f_i = 1 / (q_0 .. q_(i-1)) and f_j = -f_i q_0 .. q_(j-1).
// The result is f_0, .., f_i.
std::vector<uint64_t> MixedRadixFactors(const std::vector<uint64_t>& moduli, size_t i);

// root^brv(i) for i < degree.
std::vector<uint64_t> BitReversedPowers(uint64_t root, int64_t degree, const Modulus& q);

}  // namespace fhejax
