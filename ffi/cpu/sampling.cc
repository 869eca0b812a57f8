// Random residues from seeds. The streams are defined in fhejax/primitives/sampling.py.

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

using Words = ffi::Buffer<ffi::U32>;
using WordsOut = ffi::ResultBuffer<ffi::U32>;
using Wide128 = unsigned __int128;

enum Tag : uint32_t { kUniform = 2, kTernary = 3, kGaussian = 4, kSparse = 5 };

constexpr int64_t kChunk = 1024;  // coefficients of one piece of work: whole blocks in every stream

// One stream: a key and a nonce.
struct Stream {
  const uint32_t* key;
  uint32_t nonce[3];

  // The words of the numbers first..first+count-1 of the stream, `size` words each; `first` begins a block.
  void Read(int64_t first, int64_t count, int64_t size, uint32_t* words) const {
    const int64_t blocks = (count * size + 15) / 16;
    ActiveKernels().chacha20_blocks(key, nonce, static_cast<uint32_t>(first * size / 16), blocks, words);
  }
};

uint64_t Number64(const uint32_t* words) { return words[0] | uint64_t{words[1]} << 32; }

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
  const int64_t chunks = (s.degree + kChunk - 1) / kChunk;
  ParallelFor(pool, s.seeds * s.count * s.limbs * chunks, [&](int64_t task) {
    const int64_t row = task / chunks, first = task % chunks * kChunk, n = std::min(kChunk, s.degree - first);
    const int64_t limb = row % s.limbs, object = row / s.limbs % s.count, seed = row / s.limbs / s.count;
    const Stream stream{seeds.typed_data() + 8 * seed,
                        {kUniform, static_cast<uint32_t>(object), static_cast<uint32_t>(limb)}};
    uint32_t words[4 * kChunk];
    stream.Read(first, n, 4, words);
    const Modulus& q = ModulusFor(moduli.begin()[limb]);
    uint64_t* const to = out->typed_data() + row * s.degree + first;
    for (int64_t i = 0; i < n; ++i) to[i] = ReduceWide({Number64(words + 4 * i), Number64(words + 4 * i + 2)}, q);
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
  ParallelFor(pool, s.seeds * s.count * pieces, [&](int64_t task) {
    const int64_t row = task / pieces, first = task % pieces * piece, n = std::min(piece, s.degree - first);
    const Stream stream{seeds.typed_data() + 8 * (row / s.count), {tag, static_cast<uint32_t>(row % s.count), 0}};
    std::vector<int64_t> small(n);
    draw(stream, first, n, small.data());
    for (int64_t limb = 0; limb < s.limbs; ++limb) {
      const uint64_t q = moduli.begin()[limb];
      uint64_t* const to = out->typed_data() + (row * s.limbs + limb) * s.degree + first;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint64_t>(small[i] + (static_cast<int64_t>(q) & small[i] >> 63));
    }
  });
  return ffi::Error::Success();
}

ffi::Error SampleTernaryHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli) {
  const auto draw = [](const Stream& stream, int64_t first, int64_t n, int64_t* small) {
    uint32_t words[2 * kChunk];
    stream.Read(first, n, 2, words);
    for (int64_t i = 0; i < n; ++i) small[i] = static_cast<int64_t>(MultiplyHigh(Number64(words + 2 * i), 3)) - 1;
  };
  return SampleSmall(pool, seeds, out, moduli, kTernary, kChunk, draw);
}

// A sign (all ones if negative) and 127 bits.
struct Signed127 {
  int64_t sign;
  Wide128 magnitude;
};

Signed127 ReadSigned127(const uint32_t* words) {
  const uint64_t high = Number64(words + 2);
  return {static_cast<int64_t>(high) >> 63, static_cast<Wide128>(high << 1 >> 1) << 64 | Number64(words)};
}

// thresholds: the upper and the lower 64 bits of each.
ffi::Error SampleGaussianHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli, Moduli thresholds) {
  std::vector<Wide128> bounds(thresholds.size() / 2);
  for (size_t k = 0; k < bounds.size(); ++k)
    bounds[k] = static_cast<Wide128>(thresholds.begin()[2 * k]) << 64 | thresholds.begin()[2 * k + 1];
  const auto draw = [&](const Stream& stream, int64_t first, int64_t n, int64_t* small) {
    uint32_t words[4 * kChunk];
    stream.Read(first, n, 4, words);
    for (int64_t i = 0; i < n; ++i) {
      const Signed127 u = ReadSigned127(words + 4 * i);
      auto magnitude = static_cast<int64_t>(bounds.size());
      // Both are at most 2^127, so the top bit of the difference tells which is larger: subtractions, no comparison.
      for (const Wide128 bound : bounds) magnitude -= static_cast<int64_t>((u.magnitude - bound) >> 127);
      small[i] = (magnitude ^ u.sign) - u.sign;
    }
  };
  return SampleSmall(pool, seeds, out, moduli, kGaussian, kChunk, draw);
}

// Not in constant time: see the head of sampling.py.
ffi::Error SampleSparseTernaryHandler(ffi::ThreadPool pool, Words seeds, Output out, Moduli moduli, int64_t weight) {
  const int64_t degree = ShapeOf(*out).empty() ? 0 : ShapeOf(*out).back();
  if (weight < 0 || weight > degree) return ffi::Error::InvalidArgument("fhejax_sample_sparse_ternary: the weight");
  const auto draw = [weight](const Stream& stream, int64_t, int64_t n, int64_t* small) {
    std::vector<uint32_t> words(4 * weight + 16);
    stream.Read(0, weight, 4, words.data());
    std::vector<int64_t> places(n);
    std::iota(places.begin(), places.end(), 0);
    for (int64_t j = 0; j < weight; ++j) {
      const Signed127 u = ReadSigned127(words.data() + 4 * j);
      std::swap(places[j], places[j + static_cast<int64_t>(u.magnitude % static_cast<Wide128>(n - j))]);
      small[places[j]] = 1 + 2 * u.sign;
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
