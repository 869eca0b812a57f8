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

// One limb that a conversion of basis makes.
struct ConversionTarget {
  const uint64_t* factors;  // one for each source limb
  uint64_t last;
  const Modulus* q;
  uint64_t* out;
};

// A transform's parts: so many coefficients that rows, twiddles and a key's rows of one part fit into the cache.
constexpr int64_t kPart = 1 << 11;
inline int64_t PartOf(int64_t n) { return n <= 2 * kPart ? n : __builtin_ctzll(n) % 2 ? kPart : 2 * kPart; }

// Memory that will be read soon, in rows of `words`: a kernel that waits for arithmetic asks for it meanwhile.
struct Ahead {
  const uint64_t* const* rows;
  int64_t count, words;
};

struct Kernels {
  const char* name;
  // Transforms modulo primes below 2^narrow_bits take their companions with 52 bits; 0 where none do.
  int narrow_bits;

  // Rows of one prime together, so that twiddles are read once for all of them. from[i] and to[i] may be the same row.
  // Natural order in, bit-reversed order out.
  void (*forward_ntt)(const uint64_t* const* from, uint64_t* const* to, int64_t rows, const NttTable& table);
  // The same in place and in two steps: the tail of a part, PartOf(n) values, ends it, so that its values can be used
  // while they are in the cache. Between the steps rows mean nothing. Parts are independent and in any order.
  void (*forward_head)(uint64_t* const* rows, int64_t count, const NttTable& table);
  void (*forward_tail)(uint64_t* const* rows, int64_t count, int64_t part, const NttTable& table, const Ahead& ahead);
  // Bit-reversed order in, natural order out; times scale / inverse_degree, so that table.inverse_degree alone gives
  // the inverse.
  void (*inverse_ntt)(const uint64_t* const* from, uint64_t* const* to, int64_t rows, Factor scale,
                      const NttTable& table);

  void (*add)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*subtract)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*multiply)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  // The same for one of so many rows that no cache holds them: where there are instructions for it, past the caches.
  void (*multiply_past_caches)(const uint64_t* a, const uint64_t* b, uint64_t* out, int64_t n, const Modulus& q);
  void (*multiply_add)(const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, int64_t n,
                       const Modulus& q);
  void (*multiply_factor)(const uint64_t* a, Factor w, uint64_t* out, int64_t n, const Modulus& q);
  // out = (a - b) w.
  void (*subtract_multiply)(const uint64_t* a, const uint64_t* b, Factor w, uint64_t* out, int64_t n,
                            const Modulus& q);
  // out[i] = ((a - b) w + c)[source[i]]; c may be null, for 0. The permutation is an automorphism's: it maps aligned
  // blocks of 8 to such blocks.
  void (*subtract_multiply_permute)(const uint64_t* a, const uint64_t* b, Factor w, const uint64_t* c,
                                    const uint32_t* source, uint64_t* out, int64_t n, const Modulus& q);
  // out[i] = x[source[i]], for such a permutation.
  void (*permute)(const uint64_t* x, const uint32_t* source, uint64_t* out, int64_t n);
  // out = sum over i < terms of a[i] b[i]. Any number of terms.
  void (*inner_product)(const uint64_t* const* a, const uint64_t* const* b, int64_t terms, uint64_t* out, int64_t n,
                        const Modulus& q);
  // For each target: out = sum over i < terms of y[i] factors[i], plus v last, modulo q; factors and last below q,
  // y[i] < 2^61, v < 2^9. `narrow` says that y[i] < 2^50.
  void (*combine)(const uint64_t* const* y, const uint64_t* v, int64_t terms, const ConversionTarget* targets,
                  int64_t count, int64_t n, bool narrow);
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

// Takes the instruction set of that name from now on, if this machine has it; not while handlers run.
bool ChooseKernels(const std::string& name);

}  // namespace fhejax
