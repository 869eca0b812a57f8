// Change of basis: residues modulo some primes to residues of the same centred integers modulo others.

#include "cuda/basis.h"

#include <algorithm>

#include "cuda/handlers.h"

namespace fhejax {
namespace {

constexpr int kTogether = 4;             // targets that a thread sums at once
constexpr uint32_t kTargets = 8;         // of a block
constexpr size_t kTileBytes = 48 << 10;  // of the source words of a block

// y of source word x < c: reduced.
template <bool kScales>
FHEJAX_DEVICE uint64_t SourceWord(uint64_t x, const ConversionSource& source) {
  return kScales ? Reduce(MultiplyLazy(x, source.inverse, source.modulus), source.modulus) : x;
}

// sum y_i f_i + v f_last, for kTogether targets from `first` on; those from `end` on are computed for nothing. y < c.
template <typename A>
FHEJAX_DEVICE void SumTargets(const uint64_t* y, uint32_t pitch, uint64_t v, const Conversion& conversion,
                              const Limb* limbs, uint32_t first, uint32_t end, uint64_t* to, uint32_t n) {
  using S = SumOf<A>;
  typename S::Sum sums[kTogether];
  typename A::Modulus q[kTogether];
  const LimbFactor* factors[kTogether];
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    const uint32_t target = min(first + j, end - 1);
    q[j] = A::ModulusOf(limbs[target]);
    factors[j] = conversion.factors + target * (conversion.terms + 1);
    sums[j] = S::From(0);
    S::Add(sums[j], A::Load(v), factors[j][conversion.terms], q[j]);
  }
  int products = 1;
  for (uint32_t i = 0; i < conversion.terms; ++i) {
    const typename A::Word word = A::Load(y[i * pitch]);
    if (products == S::kProducts) {
#pragma unroll
      for (int j = 0; j < kTogether; ++j) S::Settle(sums[j], q[j]);
      products = 0;
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) S::Add(sums[j], word, factors[j][i], q[j]);
    ++products;
  }
#pragma unroll
  for (int j = 0; j < kTogether; ++j) {
    const uint32_t target = first + j;
    if (target < end && !(target >= conversion.own_begin && target < conversion.own_end))
      to[uint64_t{target} * n] = S::Reduced(sums[j], q[j]);
  }
}

// A tile is blockDim.x coefficients, the limb of a tile kTargets targets. Each thread keeps the source words of its
// coefficient in shared memory. From reduced words to reduced words.
template <bool kScales>
__global__ void __launch_bounds__(kThreads)
    ConvertTile(Grid grid, ConversionRows rows, const Conversion* conversions, const Limb* limbs) {
  const Tile tile = grid.At(blockIdx.x);
  const uint32_t at = tile.index * blockDim.x + threadIdx.x, entry = tile.entry / rows.count;
  if (at >= rows.n) return;
  const Conversion conversion = conversions[tile.entry % rows.count];
  const uint64_t* const from = rows.from + entry * rows.from_stride + uint64_t{conversion.first} * rows.n + at;
  uint64_t* const y = SharedMemory<uint64_t>() + threadIdx.x;
  const uint32_t pitch = blockDim.x;
  uint64_t v = uint64_t{1} << 50;
  for (uint32_t i = 0; i < conversion.terms; ++i) {
    const ConversionSource& source = conversion.sources[i];
    const uint64_t word = SourceWord<kScales>(from[uint64_t{i} * rows.n], source);
    y[i * pitch] = word;
    v += MultiplyHigh(word << source.left >> source.right, source.ratio);
  }
  v = conversion.terms == 1 ? y[0] > conversion.sources[0].modulus / 2 : v >> 51;
  uint64_t* const to = rows.to + tile.entry * rows.to_stride + at;
  const uint32_t begin = tile.limb * kTargets, end = min(begin + kTargets, rows.targets);
  for (uint32_t first = begin; first < end; first += kTogether) {
    if (first >= conversion.own_begin && min(first + kTogether, end) <= conversion.own_end) continue;
    bool doubles = conversion.narrow;
    for (uint32_t target = first; target < min(first + kTogether, end); ++target)
      doubles = doubles && limbs[target].kind == ArithmeticKind::kDouble;
    if (doubles)
      SumTargets<Double>(y, pitch, v, conversion, limbs, first, end, to, rows.n);
    else
      SumTargets<Integer>(y, pitch, v, conversion, limbs, first, end, to, rows.n);
  }
}

}  // namespace

void LaunchConversion(Call& call, const ConversionRows& rows, const Conversion* conversions, const Limb* limbs,
                      bool scales) {
  uint32_t threads = std::min(kThreads, rows.n);
  while (threads > 32 && rows.most_terms * threads * sizeof(uint64_t) > kTileBytes) threads = (threads + 1) / 2;
  const size_t bytes = rows.most_terms * threads * sizeof(uint64_t);
  if (bytes > 3 * kTileBytes) return call.RefuseArguments("too many source moduli for a change of basis");
  const Grid grid{(rows.n + threads - 1) / threads, rows.entries * rows.count, (rows.targets + kTargets - 1) / kTargets};
  call.Launch(scales ? ConvertTile<true> : ConvertTile<false>, grid.blocks(), dim3(threads), bytes, grid, rows,
              conversions, limbs);
}

namespace {

void ConvertBasis(Call& call, const handlers::ConvertBasis& in) {
  const auto terms = static_cast<uint32_t>(in.sources), targets = static_cast<uint32_t>(in.targets);
  const auto n = static_cast<uint64_t>(in.values);
  const ConversionRows rows{in.x.data, in.out.data, terms * n, targets * n,             static_cast<uint32_t>(in.batch),
                            1,         targets,     terms,     static_cast<uint32_t>(n)};
  LaunchConversion(call, rows, ConversionOf(call, PrimesOf(in.source), PrimesOf(in.target)), LimbsOf(call, in.target), true);
}

// One thread a word.
__global__ void __launch_bounds__(kThreads)
    CopyRows(const uint64_t* from, uint64_t* to, uint64_t words, uint64_t to_stride, uint32_t tiles) {
  const uint32_t entry = blockIdx.x / tiles;
  const uint64_t at = uint64_t{blockIdx.x % tiles} * blockDim.x + threadIdx.x;
  if (at < words) to[entry * to_stride + at] = from[entry * words + at];
}

// In NTT form.
void ModRaise(Call& call, const handlers::ModRaise& in) {
  const auto terms = static_cast<uint32_t>(in.sources), added = static_cast<uint32_t>(in.added);
  const auto count = static_cast<uint32_t>(in.batch);
  const int log_degree = LogOf(in.n);
  const uint64_t n = uint64_t{1} << log_degree, words = terms * n, stride = (terms + added) * n;
  uint64_t *const y = in.workspace.coefficients, *const raised = in.out.data + words;
  const Limb* const limbs = TransformLimbsOf(call, in.more, in.n);
  const NttShape ntt_shape = NttShapeOf(log_degree);
  const WriteRows coefficients{y, words, log_degree}, to{raised, stride, log_degree};
  LaunchInverse(call, {count, terms, log_degree, TransformLimbsOf(call, in.source, in.n), ntt_shape},
                ReadRows{in.x.data, words, log_degree}, coefficients,
                ScaledRows{coefficients, ConversionScales(call, PrimesOf(in.source), terms, in.n)});
  const auto tiles = static_cast<uint32_t>((words + kThreads - 1) / kThreads);
  call.Launch(CopyRows, uint64_t{tiles} * count, dim3(kThreads), 0, in.x.data, in.out.data, words, stride, tiles);
  LaunchConversion(call, {y, raised, words, stride, count, 1, added, terms, static_cast<uint32_t>(n)},
                   ConversionOf(call, PrimesOf(in.source), PrimesOf(in.more)), limbs);
  LaunchForward(call, {count, added, log_degree, limbs, ntt_shape}, ReadRows{raised, stride, log_degree}, to, to);
}

// In NTT form: the quotient by the product of the dropped moduli, rounded to nearest.
void ModDown(Call& call, const handlers::ModDown& in) {
  const int log_degree = LogOf(in.n);
  const auto kept = static_cast<uint32_t>(in.kept);
  const uint64_t words = static_cast<uint64_t>(in.kept + in.dropped) << log_degree;
  const Division division{in.x.data,
                          words,
                          in.workspace.dropped_rows,
                          static_cast<uint64_t>(in.dropped) << log_degree,
                          in.workspace.lifts,
                          static_cast<uint32_t>(in.batch),
                          PrimesOf(in.keep),
                          PrimesOf(in.drop),
                          log_degree};
  LaunchDivision(call, division,
                 Quotient{in.x.data, words, in.out.data, InverseProducts(call, division.keep, division.drop), kept,
                          log_degree});
}

}  // namespace

FHEJAX_CUDA_HANDLER(ConvertBasis, ConvertBasis);
FHEJAX_CUDA_HANDLER(ModRaise, ModRaise);
FHEJAX_CUDA_HANDLER(ModDown, ModDown);

}  // namespace fhejax
