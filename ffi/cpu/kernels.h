// The inner loops, once for each instruction set; dispatch.cc chooses at run time.
//
// Every loop takes and returns reduced residues unless it says otherwise. Pointers may alias only where input and
// output are the same row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/modular.h"
#include "cpu/basis_tables.h"
#include "cpu/tables.h"

namespace fhejax {

struct Kernels {
  const char* name;
  // Primes with fewer bits than this (or equally many) have tables of their own, NarrowRoots; 0 where none do.
  int narrow_bits;

  // In place; natural order in, bit-reversed order out.
  void (*forward_ntt)(uint64_t* x, const NttTable& table);
  // In place; bit-reversed order in, natural order out.
  void (*inverse_ntt)(uint64_t* x, const NttTable& table);

  void (*add)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*subtract)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*negate)(const uint64_t* a, uint64_t* out, int64_t n, const Modulus& q);
  void (*multiply)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*multiply_add)(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                       const Modulus& q);
  void (*multiply_factor)(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q);
  // out = (a - b) w.
  void (*subtract_multiply)(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                            const Modulus& q);
  // out = sum over i < terms of a[i] b[i]. Any number of terms.
  void (*inner_product)(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                        const Modulus& q);
  // out = sum over i < terms of y[i] factors[i], plus v last, modulo q; factors and last below q, y[i] < 2^61, v < 2^9.
  // `narrow` says that y[i] < 2^50.
  void (*combine)(const uint64_t* const* y, const uint64_t* factors, int64_t terms, const uint64_t* v, uint64_t last,
                  uint64_t* out, int64_t n, const Modulus& q, bool narrow);
  // v = round(sum over i < terms of y[i] / c_i), by the fixed-point rule of SourceLimb.
  void (*overflow)(const uint64_t* const* y, const SourceLimb* limbs, int64_t terms, uint64_t* v, int64_t n);

  // The ChaCha20 blocks with counters first, first + 1, ..: 16 words each.
  void (*chacha20_blocks)(const uint32_t* key, const uint32_t* nonce, uint32_t first, int64_t count, uint32_t* out);
};

extern const Kernels kPortable;
#ifdef FHEJAX_X86
extern const Kernels kAvx2;
extern const Kernels kAvx512;
extern const Kernels kIfma;
#endif

// The instruction sets of this machine, best first.
std::vector<const Kernels*> AvailableKernels();

// The best of them, or the one named by the environment variable FHEJAX_INSTRUCTION_SET when it is first used.
const Kernels& ActiveKernels();

}  // namespace fhejax
