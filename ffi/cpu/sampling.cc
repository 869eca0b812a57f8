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

using Words = ffi::Buffer<ffi::U32>;
using WordsOut = ffi::ResultBuffer<ffi::U32>;
using Wide128 = unsigned __int128;

struct Samples {
  int64_t seeds = 0, count = 0, limbs = 0, degree = 0;
};

// out: u64[*batch, count, limbs, N]; seeds: u32[*batch, 8].
ffi::Error CheckShapes(const Words& seeds, Output& out, Moduli moduli, Samples& samples) {
  Dimensions shape = ShapeOf(*out);
  const size_t rank = shape.size();
  if (rank < 3 || shape[rank - 2] != static_cast<int64_t>(moduli.size()))
    return ffi::Error::InvalidArgument("fhejax_sample: the limb axis does not match the moduli");
  samples = {Product(shape, 0, rank - 3), shape[rank - 3], shape[rank - 2], shape[rank - 1]};
  shape.resize(rank - 3);
  shape.push_back(8);
  if (ShapeOf(seeds) != shape) return ffi::Error::InvalidArgument("fhejax_sample: the seeds do not match the result");
  return ffi::Error::Success();
}

ffi::Error SampleUniformHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli) {
  Samples s;
  if (auto error = CheckShapes(seeds, out, moduli, s); error.failure()) return error;
  const int64_t chunks = (s.degree + kPiece - 1) / kPiece;
  PrepareResult(out);
  ParallelFor(pool, s.seeds * s.count * s.limbs * chunks, [&](int64_t task) {
    const int64_t row = task / chunks, first = task % chunks * kPiece, n = std::min(kPiece, s.degree - first);
    const int64_t limb = row % s.limbs, object = row / s.limbs % s.count, seed = row / s.limbs / s.count;
    const Stream stream{seeds.typed_data() + 8 * seed,
                        {kUniform, static_cast<uint32_t>(object), static_cast<uint32_t>(limb)}};
    DrawUniform(stream, first, n, CodingModulusFor(moduli.begin()[limb]), out->typed_data() + row * s.degree + first);
  });
  return ffi::Error::Success();
}

// Draws small integers, `piece` coefficients at a time, by draw(stream, first, n, small), and writes them modulo every
// modulus.
template <typename Draw>
ffi::Error SampleSmall(ffi::ThreadPool& pool, const Words& seeds, Output& out, Moduli moduli, Tag tag, int64_t piece,
                       const Draw& draw) {
  Samples s;
  if (auto error = CheckShapes(seeds, out, moduli, s); error.failure()) return error;
  const int64_t pieces = (s.degree + piece - 1) / piece;
  PrepareResult(out);
  ParallelFor(pool, s.seeds * s.count * pieces, [&](int64_t task) {
    const int64_t row = task / pieces, first = task % pieces * piece, n = std::min(piece, s.degree - first);
    const Stream stream{seeds.typed_data() + 8 * (row / s.count), {tag, static_cast<uint32_t>(row % s.count), 0}};
    std::vector<int16_t> small(n);
    draw(stream, first, n, small.data());
    for (int64_t limb = 0; limb < s.limbs; ++limb)
      ActiveCoding().spread(small.data(), n, moduli.begin()[limb],
                            out->typed_data() + (row * s.limbs + limb) * s.degree + first);
  });
  return ffi::Error::Success();
}

ffi::Error SampleTernaryHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli) {
  return SampleSmall(pool, seeds, out, moduli, kTernary, kPiece, DrawTernary);
}

// thresholds: the upper and the lower 64 bits of each.
ffi::Error SampleGaussianHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli, Moduli thresholds) {
  const auto draw = [&](const Stream& stream, int64_t first, int64_t n, int16_t* small) {
    DrawGaussian(stream, first, n, thresholds, small);
  };
  return SampleSmall(pool, seeds, out, moduli, kGaussian, kPiece, draw);
}

// Not in constant time: see the head of sampling.py.
ffi::Error SampleSparseTernaryHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli, int64_t weight) {
  const int64_t degree = ShapeOf(*out).empty() ? 0 : ShapeOf(*out).back();
  if (weight < 0 || weight > degree) return ffi::Error::InvalidArgument("fhejax_sample_sparse_ternary: the weight");
  const auto draw = [weight](const Stream& stream, int64_t, int64_t n, int16_t* small) {
    std::vector<uint32_t> words(4 * weight + 16);
    stream.Read(0, weight, 4, words.data());
    std::vector<int64_t> places(n);
    std::iota(places.begin(), places.end(), 0);
    for (int64_t j = 0; j < weight; ++j) {
      const uint32_t* const number = words.data() + 4 * j;
      const uint64_t low = number[0] | uint64_t{number[1]} << 32;
      const uint64_t high = number[2] | uint64_t{number[3] << 1 >> 1} << 32;
      const Wide128 u = static_cast<Wide128>(high) << 64 | low;
      std::swap(places[j], places[j + static_cast<int64_t>(u % static_cast<Wide128>(n - j))]);
      small[places[j]] = number[3] >> 31 ? -1 : 1;
    }
  };
  return SampleSmall(pool, seeds, out, moduli, kSparse, std::max<int64_t>(degree, 1), draw);
}

// key: u32[*batch, 8]; place: u32[*batch, count, 4], counter and nonce of each block; out: u32[*batch, count, 16].
ffi::Error ChaCha20Handler(ffi::ThreadPool pool, Words key, Words place, WordsOut out) {
  const Dimensions shape = ShapeOf(*out), places = ShapeOf(place), keys = ShapeOf(key);
  if (shape.size() < 2 || places.size() != shape.size() || places[shape.size() - 2] != shape[shape.size() - 2] ||
      shape.back() != 16 || places.back() != 4 || keys.empty() || keys.back() != 8)
    return ffi::Error::InvalidArgument("fhejax_chacha20: the shapes do not fit");
  const int64_t count = shape[shape.size() - 2];
  const Batch batch = BatchOf(shape, 2);
  const auto key_entries = batch.Entries(keys, 1), place_entries = batch.Entries(places, 2);
  if (batch.count() && (key_entries.empty() || place_entries.empty()))
    return ffi::Error::InvalidArgument("fhejax_chacha20: batch axes do not broadcast");
  ParallelFor(pool, batch.count(), [&](int64_t entry) {
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t* const from = place.typed_data() + (place_entries[entry] * count + i) * 4;
      ActiveKernels().chacha20_blocks(key.typed_data() + 8 * key_entries[entry], from + 1, from[0], 1,
                                      out->typed_data() + (entry * count + i) * 16);
    }
  });
  return ffi::Error::Success();
}

#define FHEJAX_SAMPLE \
  ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Words>().Ret<ffi::Buffer<ffi::U64>>().Attr<Moduli>("moduli")

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSampleUniform, SampleUniformHandler, FHEJAX_SAMPLE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSampleTernary, SampleTernaryHandler, FHEJAX_SAMPLE);
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSampleGaussian, SampleGaussianHandler,
                              FHEJAX_SAMPLE.Attr<Moduli>("thresholds"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxSampleSparseTernary, SampleSparseTernaryHandler,
                              FHEJAX_SAMPLE.Attr<int64_t>("weight"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(FhejaxChaCha20, ChaCha20Handler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<Words>()
                                  .Arg<Words>()
                                  .Ret<ffi::Buffer<ffi::U32>>());

}  // namespace fhejax
