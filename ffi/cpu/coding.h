// The inner loops of encoding and sampling, once for each instruction set, beside those of kernels.h.
//
// None has a branch or a memory access that depends on a coefficient or on a random number.
#pragma once

#include <cstdint>

#include "common/embedding_table.h"
#include "common/rounding.h"
#include "cpu/coding_tables.h"

namespace fhejax {

// From so many slots on the loops of CodingKernels serve for the embedding.
constexpr int64_t kLeastVectorSlots = 64;

struct CodingKernels {
  // a[i] scale, rounded to an integer, ties away from zero. Below 2^104 it is the number's sign in the top bit of
  // high[i], and its magnitude in the other bits and low[i]. Larger ones are left without a power of two, and the
  // result says that there is one.
  bool (*round_product)(const double* a, int64_t n, const Float& scale, uint64_t* low, uint64_t* high);
  // Such signed numbers modulo q.
  void (*reduce_signed)(const uint64_t* low, const uint64_t* high, int64_t n, const CodingModulus& q, uint64_t* out);
  // The centred integers with the residues x[limb * stride + i], as doubles: the sum of their digits times the places,
  // lowest first. n <= kCentredChunk; digits is scratch, kCentredChunk words a limb.
  void (*centred_values)(const uint64_t* x, int64_t stride, int64_t n, const MixedRadixTable& table,
                         const double* places, uint64_t* digits, double* out);

  // The embedding between slots z, real and imaginary parts in turn, and coefficients a_k + i a_(k + slots): for
  // kLeastVectorSlots slots or more. work is scratch, two doubles a slot.
  void (*coefficients_to_slots)(const double* a_re, const double* a_im, const EmbeddingTable& table, double* work,
                                double* z);
  void (*slots_to_coefficients)(const double* z, const EmbeddingTable& table, double* work, double* a_re,
                                double* a_im);

  // 128-bit numbers, four words each and the lowest first, modulo q.
  void (*reduce_numbers)(const uint32_t* words, int64_t n, const CodingModulus& q, uint64_t* out);
  // Of 64-bit numbers r, floor(3 r / 2^64) - 1.
  void (*ternary)(const uint32_t* words, int64_t n, int16_t* small);
  // Of 128-bit numbers with a sign on top, how many of the thresholds (the upper and the lower 64 bits of each, at most
  // 2^127) the magnitude reaches, with that sign.
  void (*gaussian)(const uint32_t* words, int64_t n, const uint64_t* thresholds, int64_t count, int16_t* small);
  // Small integers modulo q.
  void (*spread)(const int16_t* small, int64_t n, uint64_t q, uint64_t* out);
  // x factor modulo q, for x in {-1, 0, 1}.
  void (*spread_ternary)(const int16_t* small, int64_t n, uint64_t factor, uint64_t q, uint64_t* out);
  // e - [x + e] for residues x modulo p and |e| < p, [.] the centred residue modulo p.
  void (*centred_error)(const uint64_t* x, const int16_t* e, int64_t n, uint64_t p, int64_t* out);
  // d factor modulo q, |d| < 2^62.
  void (*scale_signed)(const int64_t* d, int64_t n, Factor factor, const CodingModulus& q, uint64_t* out);
};

constexpr int64_t kCentredChunk = 64;

extern const CodingKernels kCodingPortable;
#ifdef FHEJAX_X86
extern const CodingKernels kCodingAvx2;
extern const CodingKernels kCodingAvx512;
extern const CodingKernels kCodingIfma;
#endif

// The loops for the instruction set of ActiveKernels().
const CodingKernels& ActiveCoding();

}  // namespace fhejax
