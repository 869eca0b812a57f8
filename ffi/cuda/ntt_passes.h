// A transform of 2^log_size words by the threads of a block that share it, for kernels to put between a load and a store
// of their own.
//
// A thread has eight words in registers for up to three stages: a pass. Between passes words change threads through shared
// memory. A pass reads and writes the same places of it, so one barrier between two passes is enough. If log_size is no
// multiple of three, the pass next to the coefficients is a short one, of several groups of two or four words a thread.
#pragma once

#include "cuda/arithmetic.h"

namespace fhejax {

// Where shared memory has word k. Both are padded against bank conflicts between threads whose words are eight apart.
struct ColumnSlots {  // columns side by side
  int log_columns;
  uint32_t column;
  __device__ __forceinline__ uint32_t operator()(uint32_t k) const { return ((k + (k >> 3)) << log_columns) + column; }
};
struct RowSlots {
  uint32_t start;
  __device__ __forceinline__ uint32_t operator()(uint32_t k) const { return start + k + (k >> 4); }
};

FHEJAX_INLINE uint32_t ColumnWords(int log_size, int log_columns) { return ((1u << log_size) * 9 / 8) << log_columns; }
FHEJAX_INLINE uint32_t RowWords(int log_size) { return (1u << log_size) + (1u << log_size >> 4); }  // of each row

// kShort: log_size may be below three; then there is one thread.
template <typename A, bool kInverse, bool kShort, typename Slots>
struct NttPasses {
  static constexpr int kWords = 8, kStagesOfAll = 3;
  using Word = typename A::Word;

  typename A::Modulus modulus;
  const void* roots;  // of the limb, in this direction
  uint32_t prefix;    // 1 for a whole transform or a column; 2^log_first + r for row r
  int log_size;
  uint32_t thread, threads;  // 2^log_size / 8
  Word* shared;
  Slots slots;

  // load(k) gives word k, a residue below q or a word of butterflies; store(k, word) takes it, in the range that
  // butterflies leave.
  template <typename Load, typename Store>
  __device__ __forceinline__ void Run(const Load& load, const Store& store) const {
    const int odd = log_size % kStagesOfAll;
    if (!kInverse) {
      if (odd) OddPass(odd, load, store, true, odd == log_size);
      for (int stage = odd; stage < log_size; stage += kStagesOfAll) {
        if (stage) __syncthreads();
        Pass<kStagesOfAll>(stage, load, store, stage == 0, stage + kStagesOfAll == log_size);
      }
    } else {
      for (int stage = log_size - kStagesOfAll; stage >= odd; stage -= kStagesOfAll) {
        if (stage + kStagesOfAll != log_size) __syncthreads();
        Pass<kStagesOfAll>(stage, load, store, stage + kStagesOfAll == log_size, stage == 0);
      }
      if (odd) {
        if (odd != log_size) __syncthreads();
        OddPass(odd, load, store, odd == log_size, true);
      }
    }
  }

 private:
  template <typename Load, typename Store>
  __device__ __forceinline__ void OddPass(int stages, const Load& load, const Store& store, bool first, bool last) const {
    if (stages == 1)
      Pass<1>(0, load, store, first, last);
    else
      Pass<2>(0, load, store, first, last);
  }

  // Register i is word i % 2^kStages of the thread's group i / 2^kStages; words of a group are 2^log_step apart.
  template <int kStages>
  __device__ __forceinline__ uint32_t IndexOf(int i, int log_step) const {
    const uint32_t group = thread + (i >> kStages) * threads, word = i & ((1 << kStages) - 1);
    return (group >> log_step << (log_step + kStages)) + (word << log_step) + (group & ((1u << log_step) - 1));
  }

  template <int kStages, typename Load, typename Store>
  __device__ __forceinline__ void Pass(int stage, const Load& load, const Store& store, bool first, bool last) const {
    const int log_step = log_size - stage - kStages;
    Word x[kWords];
    if (first) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const uint32_t k = IndexOf<kStages>(i, log_step);
        x[i] = !kShort || k < 1u << log_size ? load(k) : Word{0};
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) x[i] = shared[slots(IndexOf<kStages>(i, log_step))];
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) x[i] = A::Settle(x[i], modulus);
    Butterflies<kStages>(x, stage, log_step);
    if (last) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        const uint32_t k = IndexOf<kStages>(i, log_step);
        if (!kShort || k < 1u << log_size) store(k, x[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) shared[slots(IndexOf<kStages>(i, log_step))] = x[i];
    }
  }

  // All loops have constant bounds: otherwise x would move from registers to memory.
  template <int kStages>
  __device__ __forceinline__ void Butterflies(Word (&x)[kWords], int stage, int log_step) const {
#pragma unroll
    for (int step = 0; step < kStages; ++step) {
      const int j = kInverse ? kStages - 1 - step : step, half = 1 << (kStages - 1 - j);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        if (i & half) continue;
        const uint32_t group = thread + (i >> kStages) * threads;
        const uint32_t block = ((group >> log_step) << j) + ((i & ((1 << kStages) - 1)) >> (kStages - j));
        const typename A::Factor w = A::FactorAt(roots, (prefix << (stage + j)) + block, modulus);
        if (kInverse)
          A::Inverse(x[i], x[i + half], w, modulus);
        else
          A::Forward(x[i], x[i + half], w, modulus);
      }
    }
  }
};

}  // namespace fhejax
