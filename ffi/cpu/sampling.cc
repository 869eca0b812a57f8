// Random residues from seeds. The streams are defined in fhejax/primitives/sampling.py.

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/parallel.h"
#include "cpu/sampling.h"

namespace fhejax {
namespace {

using Wide128 = unsigned __int128;

void SampleUniform(ffi::ThreadPool& pool, const handlers::SampleUniform& in) {
  const int64_t n = in.values, chunks = (n + kPiece - 1) / kPiece;
  PrepareResult(in.out);
  ParallelFor(pool, in.batch * in.count * in.limbs * chunks, [&](int64_t task) {
    const int64_t row = task / chunks, first = task % chunks * kPiece;
    const int64_t limb = row % in.limbs, object = row / in.limbs % in.count, seed = row / in.limbs / in.count;
    const Stream stream{in.seeds.data + 8 * seed,
                        {kUniform, static_cast<uint32_t>(object), static_cast<uint32_t>(limb)}};
    DrawUniform(stream, first, std::min(kPiece, n - first), CodingModulusFor(in.moduli[limb]),
                in.out.data + row * n + first);
  });
}

// Draws small integers, `piece` coefficients at a time, by draw(stream, first, n, small), and writes them modulo every
// modulus.
template <typename Stated, typename Draw>
void SampleSmall(ffi::ThreadPool& pool, const Stated& in, Tag tag, int64_t piece, const Draw& draw) {
  const int64_t pieces = (in.values + piece - 1) / piece;
  PrepareResult(in.out);
  ParallelFor(pool, in.batch * in.count * pieces, [&](int64_t task) {
    const int64_t row = task / pieces, first = task % pieces * piece, n = std::min(piece, in.values - first);
    const Stream stream{in.seeds.data + 8 * (row / in.count), {tag, static_cast<uint32_t>(row % in.count), 0}};
    std::vector<int16_t> small(n);
    draw(stream, first, n, small.data());
    for (int64_t limb = 0; limb < in.limbs; ++limb)
      ActiveCoding().spread(small.data(), n, in.moduli[limb],
                            in.out.data + (row * in.limbs + limb) * in.values + first);
  });
}

void SampleTernary(ffi::ThreadPool& pool, const handlers::SampleTernary& in) {
  SampleSmall(pool, in, kTernary, kPiece, DrawTernary);
}

void SampleGaussian(ffi::ThreadPool& pool, const handlers::SampleGaussian& in) {
  SampleSmall(pool, in, kGaussian, kPiece, [&](const Stream& stream, int64_t first, int64_t n, int16_t* small) {
    DrawGaussian(stream, first, n, in.thresholds, small);
  });
}

// Not in constant time: see the head of sampling.py.
void SampleSparseTernary(ffi::ThreadPool& pool, const handlers::SampleSparseTernary& in) {
  SampleSmall(pool, in, kSparse, in.values, [&](const Stream& stream, int64_t, int64_t n, int16_t* small) {
    std::vector<uint32_t> words(4 * in.weight + 16);
    stream.Read(0, in.weight, 4, words.data());
    std::vector<int64_t> places(n);
    std::iota(places.begin(), places.end(), 0);
    for (int64_t j = 0; j < in.weight; ++j) {
      const uint32_t* const number = words.data() + 4 * j;
      const uint64_t low = number[0] | uint64_t{number[1]} << 32;
      const uint64_t high = number[2] | uint64_t{number[3] << 1 >> 1} << 32;
      const Wide128 u = static_cast<Wide128>(high) << 64 | low;
      std::swap(places[j], places[j + static_cast<int64_t>(u % static_cast<Wide128>(n - j))]);
      small[places[j]] = number[3] >> 31 ? -1 : 1;
    }
  });
}

void ChaCha20Blocks(ffi::ThreadPool& pool, const handlers::Chacha20& in) {
  const auto key_entries = EntriesOf(in.out.batch(), in.key), place_entries = EntriesOf(in.out.batch(), in.place);
  ParallelFor(pool, in.batch, [&](int64_t entry) {
    for (int64_t i = 0; i < in.count; ++i) {
      const uint32_t* const from = in.place.data + (place_entries[entry] * in.count + i) * 4;
      ActiveKernels().chacha20_blocks(in.key.data + 8 * key_entries[entry], from + 1, from[0], 1,
                                      in.out.data + (entry * in.count + i) * 16);
    }
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(SampleUniform, SampleUniform);
FHEJAX_CPU_HANDLER(SampleTernary, SampleTernary);
FHEJAX_CPU_HANDLER(SampleGaussian, SampleGaussian);
FHEJAX_CPU_HANDLER(SampleSparseTernary, SampleSparseTernary);
FHEJAX_CPU_HANDLER(Chacha20, ChaCha20Blocks);

}  // namespace fhejax
