// The butterflies of the kernels' own transforms and nothing else: passes over a buffer that stays in the first-level
// cache. What a transform takes beyond these is memory, shuffles and the last reduction.
//
// butterflies.py compiles this once for each instruction set, with that set's flags, when a benchmark runs.

#if defined(__AVX512IFMA__)
#include "cpu/kernels_ifma.cc"
#elif defined(__AVX512F__)
#include "cpu/kernels_generic.h"
#include "cpu/rows_avx512.h"
#else
#include "cpu/kernels_avx2.cc"
#endif

namespace fhejax {
namespace {

constexpr int64_t kWords = 2048;  // 16 KiB
constexpr int kStages = 2;

#if defined(__AVX512F__)
template <typename A>
void Forward(uint64_t* x, const Roots& roots, const A& a) {
  ForwardPass<A, kStages>(x, x, kWords, 1, 0, roots, a);
}

template <typename A>
void Inverse(uint64_t* x, const Roots& roots, const A& a) {
  const typename A::Factors w = Broadcast<A>(roots, 1);
  InversePass<A, kStages, false>(x, x, kWords, 1, 0, roots, {w, w}, a);
}

template <typename A>
void Enter(uint64_t*, const A&) {}
#else
template <typename A>
void Forward(uint64_t* x, const Roots& roots, const A& a) {
  ForwardPass<A, kStages, false>(x, x, kWords, 1, roots, a);
}

template <typename A>
void Inverse(uint64_t* x, const Roots& roots, const A& a) {
  const typename A::Factors w = Broadcast(roots, 1, a);
  InversePass<A, kStages, false>(x, kWords, 1, roots, {w, w}, a);
}

template <typename A>
void Enter(uint64_t* x, const A& a) {
  for (int64_t i = 0; i < kWords; i += kLanes) Store(x + i, a.Enter(Load(x + i)));
}
#endif

// Any factors serve: no instruction's time depends on its operands.
template <typename A>
int64_t Repeat(uint64_t q, int companion_bits, bool inverse, int64_t passes) {
  Roots roots{AlignedWords(1 << kStages), AlignedWords(1 << kStages)};
  for (int i = 0; i < 1 << kStages; ++i) {
    roots.values[i] = q / (i + 3);
    roots.companions[i] = static_cast<uint64_t>((static_cast<unsigned __int128>(q / (i + 3)) << companion_bits) / q);
  }
  AlignedWords x(kWords);
  for (int64_t i = 0; i < kWords; ++i) x[i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15 % q;
  const A a(Modulus{q, 0, 0, {}, {}});
  Enter(x.data(), a);
  for (int64_t i = 0; i < passes; ++i) inverse ? Inverse(x.data(), roots, a) : Forward(x.data(), roots, a);
  return passes * kStages * kWords / 2;
}

}  // namespace
}  // namespace fhejax

// So many passes of butterflies modulo an odd q < 2^61, as the kernels choose them for it. Returns their number.
extern "C" __attribute__((visibility("default"))) int64_t Butterflies(uint64_t q, int inverse, int64_t passes) {
  using namespace fhejax;
#if defined(__AVX512IFMA__)
  if (q < (inverse ? kRoomyInverse : kRoomyForward)) return Repeat<Roomy>(q, 52, inverse, passes);
  if (q < kNarrow) return Repeat<Narrow>(q, 52, inverse, passes);
#endif
#if defined(__AVX512F__)
  return Repeat<Arithmetic64>(q, 64, inverse, passes);
#else
  if (q < kNarrow) return Repeat<NarrowArithmetic>(q, 64, inverse, passes);
  return Repeat<WideArithmetic>(q, 64, inverse, passes);
#endif
}
