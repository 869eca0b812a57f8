// Calls that fit, of every handler: with batches that broadcast, keys of a higher level, full and seeded.

#include "tests/calls.h"

#include <cmath>
#include <cstring>

#include "tests/numbers.h"

namespace fhejax {
namespace {

constexpr auto kU32 = XLA_FFI_DataType_U32;
constexpr auto kU64 = XLA_FFI_DataType_U64;
constexpr auto kF64 = XLA_FFI_DataType_F64;
constexpr auto kC128 = XLA_FFI_DataType_C128;

using Primes = std::vector<uint64_t>;

int64_t Size(const Primes& primes) { return static_cast<int64_t>(primes.size()); }

// u64[*shape, limbs, n]; the first row of each limb is the extreme one.
Array Residues(Dimensions shape, const Primes& moduli, int64_t n) {
  shape.insert(shape.end(), {Size(moduli), n});
  Array array(kU64, shape);
  const int64_t rows = static_cast<int64_t>(array.words.size()) / n;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < n; ++i)
      array.words[row * n + i] = RandomBelow(moduli[row % Size(moduli)], row < Size(moduli) ? kLargest : kRandom);
  return array;
}

Array Words(Dimensions shape) {
  Array array(kU32, std::move(shape));
  for (uint64_t& word : array.words) word = RandomWord();
  return array;
}

// Values of all sizes, some of them beyond 2^104.
Array Floats(XLA_FFI_DataType type, Dimensions shape) {
  Array array(type, std::move(shape));
  for (uint64_t& word : array.words) {
    const int exponent = static_cast<int>(RandomWord() % 150) - 130;
    const double value = std::ldexp(static_cast<double>(RandomWord()) - 0x1p63, exponent);
    std::memcpy(&word, &value, sizeof word);
  }
  return array;
}

// What each digit of a mixed-radix number counts.
std::vector<double> Places(const Primes& moduli) {
  std::vector<double> places{1.0};
  for (size_t i = 1; i < moduli.size(); ++i) places.push_back(places.back() * static_cast<double>(moduli[i - 1]));
  return places;
}

Primes Thresholds() {
  Primes thresholds;
  for (uint64_t k = 1; k <= 40; ++k) {
    thresholds.push_back(k * ((uint64_t{1} << 63) / 41));
    thresholds.push_back(RandomWord());
  }
  return thresholds;
}

void AddArithmetic(Calls& calls, int64_t n) {
  const Primes q = Chain(n);
  const int64_t limbs = Size(q);
  const Array a = Residues({2}, q, n), b = Residues({1}, q, n), c = Residues({2}, q, n), out(kU64, {2, limbs, n});
  calls.push_back({"fhejax_add_v1", {a, b}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_subtract_v1", {a, b}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_multiply_v1", {a, b}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_multiply_add_v1", {a, b, c}, {out}, {{"moduli", q}}});
  Array scalars(kU64, {1, limbs});
  for (int64_t i = 0; i < limbs; ++i) scalars.words[i] = q[i] - 1;
  calls.push_back({"fhejax_multiply_scalar_v1", {a, scalars}, {out}, {{"moduli", q}}});
  for (const int64_t terms : {1, 40}) {
    Array weights(kU64, {1, 3, limbs, terms});
    for (size_t i = 0; i < weights.words.size(); ++i)
      weights.words[i] = RandomBelow(q[i / terms % limbs], i < weights.words.size() / 2 ? kLargest : kRandom);
    calls.push_back({"fhejax_weighted_sums_v1", {Residues({2, terms, 2}, q, n), weights},
                     {Array(kU64, {2, 3, 2, limbs, n})},
                     {{"moduli", q}}});
  }
  const Array x = Residues({2, 2}, q, n), y = Residues({1, 2}, q, n);
  Array numbers(kU64, {1, 2, limbs});
  for (size_t i = 0; i < numbers.words.size(); ++i) numbers.words[i] = q[i % limbs] - 1;
  calls.push_back({"fhejax_combination_v1", {x, x, y, x, y, numbers},
                   {Array(kU64, {2, 3, limbs, n})},
                   {{"moduli", q}, {"products", 2}}});
  calls.push_back({"fhejax_combination_v1",
                   {x, y, numbers},
                   {Array(kU64, {2, 2, limbs, n})},
                   {{"moduli", q}, {"products", 0}}});
  calls.push_back({"fhejax_ntt_v1", {a}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_inverse_ntt_v1", {a}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_automorphism_v1", {a}, {out}, {{"element", 2 * n - 1}}});
}

void AddEncoding(Calls& calls, int64_t n) {
  const Primes q = Chain(n);
  const int64_t limbs = Size(q);
  const Array coefficients = Floats(kF64, {2, n}), residues = Residues({2}, q, n);
  const Array out(kU64, {2, limbs, n}), floats(kF64, {2, n});
  for (const int64_t slots : {n / 4, n / 2}) {
    calls.push_back({"fhejax_slots_to_coefficients_v1", {Floats(kC128, {2, slots})}, {floats}, {}});
    calls.push_back(
        {"fhejax_coefficients_to_slots_v1", {coefficients}, {Array(kC128, {2, slots})}, {}});
  }
  for (const double scale : {0x1p40, 0x1p100}) {
    const std::map<std::string, Attribute> attributes{{"moduli", q}, {"scale", scale}};
    calls.push_back({"fhejax_round_to_residues_v1", {coefficients}, {out}, attributes});
    calls.push_back({"fhejax_encode_coefficients_v1", {coefficients}, {out}, attributes});
  }
  const std::map<std::string, Attribute> attributes{{"moduli", q}, {"places", Places(q)}};
  calls.push_back({"fhejax_residues_to_float_v1", {residues}, {floats}, attributes});
  calls.push_back({"fhejax_decode_coefficients_v1", {residues}, {floats}, attributes});
}

void AddEncryption(Calls& calls, int64_t n) {
  const Primes all = Chain(n, {61, 50, 45, 51, 50}), q(all.begin(), all.end() - 1), special(all.end() - 1, all.end());
  const int64_t limbs = Size(q);
  const Array seeds = Words({2, 8}), key = Residues({1, 1, 2}, all, n), message = Residues({2, 3}, q, n);
  calls.push_back({"fhejax_encrypt_public_v1", {seeds, key, message},
                   {Array(kU64, {2, 3, 2, limbs, n})},
                   {{"moduli", q}, {"special", special}, {"thresholds", Thresholds()}}});
  calls.push_back({"fhejax_decrypt_coefficients_v1", {Residues({2, 3}, q, n), Residues({1}, all, n)},
                   {Array(kF64, {2, n})},
                   {{"moduli", q}, {"places", Places(q)}}});
}

void AddSampling(Calls& calls, int64_t n) {
  const Primes q = Chain(n);
  const Array seeds = Words({2, 8}), out(kU64, {2, 3, Size(q), n});
  const auto places = Words({2, 5, 4});
  calls.push_back({"fhejax_chacha20_v1", {seeds, places}, {Array(kU32, {2, 5, 16})}, {}});
  calls.push_back({"fhejax_sample_uniform_v1", {seeds}, {out}, {{"moduli", q}}});
  calls.push_back({"fhejax_sample_ternary_v1", {seeds}, {out}, {{"moduli", q}}});
  calls.push_back(
      {"fhejax_sample_gaussian_v1", {seeds}, {out}, {{"moduli", q}, {"thresholds", Thresholds()}}});
  calls.push_back({"fhejax_sample_sparse_ternary_v1", {seeds},
                   {out},
                   {{"moduli", q}, {"weight", std::min<int64_t>(n, 64)}}});
}

void AddConversions(Calls& calls, int64_t n, const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<int> bits = from;
  bits.insert(bits.end(), to.begin(), to.end());
  const Primes all = Chain(n, bits), source(all.begin(), all.begin() + static_cast<int64_t>(from.size()));
  const Primes target(all.begin() + static_cast<int64_t>(from.size()), all.end());
  const Array x = Residues({2}, source, n);
  calls.push_back({"fhejax_convert_basis_v1", {x},
                   {Array(kU64, {2, Size(target), n})},
                   {{"source", source}, {"target", target}}});
  calls.push_back(
      {"fhejax_mod_raise_v1", {x}, {Array(kU64, {2, Size(all), n})}, {{"source", source}, {"more", target}}});
  calls.push_back({"fhejax_mod_down_v1", {Residues({3}, all, n)},
                   {Array(kU64, {3, Size(source), n})},
                   {{"keep", source}, {"drop", target}}});
}

struct Ring {
  int64_t n, batch;
  std::vector<int> bits, special_bits;  // of a key, which is a limb longer than the ciphertext
  int64_t digit_size;
};

void AddKeySwitches(Calls& calls, const Ring& ring) {
  const int64_t n = ring.n, batch = ring.batch, count = static_cast<int64_t>(ring.bits.size());
  std::vector<int> bits = ring.bits;
  bits.insert(bits.end(), ring.special_bits.begin(), ring.special_bits.end());
  const Primes all = Chain(n, bits), q(all.begin(), all.begin() + count - 1), special(all.begin() + count, all.end());
  const int64_t digits = (count + ring.digit_size - 1) / ring.digit_size, limbs = Size(q);
  const Array one = Residues({batch}, q, n), x = Residues({batch, 2}, q, n), y = Residues({1, 2}, q, n);
  const std::map<std::string, Attribute> attributes{
      {"moduli", q}, {"special", special}, {"digit_size", ring.digit_size}};
  std::map<std::string, Attribute> rotation = attributes, rotations = attributes;
  rotation["elements"] = Primes{5};
  rotations["elements"] = Primes{static_cast<uint64_t>(2 * n - 1), 5};

  const std::vector<Array> whole{Residues({1, digits, 2}, all, n)};
  const std::vector<Array> seeded{Residues({batch, digits}, all, n), Words({batch, 8})};
  for (const std::vector<Array>& key : {whole, seeded}) {
    const auto with_key = [&](std::vector<Array> operands) {
      operands.insert(operands.end(), key.begin(), key.end());
      return operands;
    };
    const Array extended(kU64, {batch, 2, limbs + Size(special), n}), out(kU64, {batch, 2, limbs, n});
    const Array shorter(kU64, {batch, 2, limbs - 1, n});
    calls.push_back({"fhejax_gadget_product_v1", with_key({one}), {extended}, attributes});
    calls.push_back({"fhejax_key_switch_v1", with_key({one}), {out}, attributes});
    calls.push_back({"fhejax_multiply_ciphertexts_v1", with_key({x, y}), {shorter}, attributes});
    calls.push_back({"fhejax_relinearize_rescale_v1", with_key({Residues({batch, 3}, q, n)}),
                     {shorter},
                     attributes});
    calls.push_back({"fhejax_hoisted_rotations_v1", with_key({x}), {out}, rotation});
    calls.push_back(
        {"fhejax_hoisted_rotations_v1", with_key(with_key({x})), {out, out}, rotations});

    Primes basis = q;
    basis.insert(basis.end(), special.begin(), special.end());
    std::map<std::string, Attribute> sums = attributes, added = attributes;
    sums["inputs"] = int64_t{2};
    sums["sources"] = Primes{0, 0, 1, 1};
    sums["elements"] = Primes{1, 5, 5, 25 % static_cast<uint64_t>(2 * n)};
    sums["sizes"] = Primes{3, 2, 1};
    sums["terms"] = Primes{0, 1, 2, 3, 1, 0};
    for (const int64_t width : {n, std::max<int64_t>(n / 32, 2), int64_t{2}})  // plaintexts that repeat ever more
      calls.push_back({"fhejax_hoisted_sums_v1", with_key(with_key({x, y, Residues({1, 6}, basis, width)})),
                       {extended, extended, extended},
                       sums});
    added["element"] = int64_t{5};
    calls.push_back({"fhejax_add_rotation_v1", with_key({Residues({1, 2}, basis, n), Residues({batch, 2}, basis, n)}),
                     {extended},
                     added});
  }
  std::map<std::string, Attribute> generation = attributes;
  generation["thresholds"] = Thresholds();
  for (const int64_t seeded : {0, 1}) {
    generation["seeded"] = seeded;
    const int64_t own = (limbs + ring.digit_size - 1) / ring.digit_size, rows = limbs + Size(special);
    const Array key = seeded ? Array(kU64, {batch, own, rows, n}) : Array(kU64, {batch, own, 2, rows, n});
    calls.push_back({"fhejax_switching_key_v1",
                     {Words({batch, 8}), Words({1, 8}), Residues({1}, all, n), Residues({batch}, all, n)},
                     {key},
                     generation});
  }
  calls.push_back({"fhejax_inner_product_v1", {Residues({batch, digits}, all, n), whole[0]},
                   {Array(kU64, {batch, 2, Size(all), n})},
                   {{"moduli", all}}});
}

}  // namespace

Calls AllCalls() {
  Calls calls;
  for (const int64_t n : {8, 256, 2048}) {
    AddArithmetic(calls, n);
    AddEncoding(calls, n);
    AddEncryption(calls, n);
    AddSampling(calls, n);
  }
  AddConversions(calls, 8, {50, 49, 30}, {50, 46});
  AddConversions(calls, 1024, {61, 45, 50, 51}, {61});
  AddKeySwitches(calls, {8, 3, {50, 40, 45, 40}, {50}, 1});
  AddKeySwitches(calls, {256, 3, {61, 50, 50, 51, 49}, {61, 61}, 2});
  AddKeySwitches(calls, {2048, 2, {50, 40, 40, 40}, {50, 50}, 2});
  AddKeySwitches(calls, {8192, 1, {50, 61, 45}, {61}, 2});  // in several parts
  return calls;
}

Calls SmallCalls() {
  Calls calls;
  for (const int64_t n : {8, 64}) {
    AddArithmetic(calls, n);
    AddEncoding(calls, n);
    AddEncryption(calls, n);
    AddSampling(calls, n);
  }
  AddConversions(calls, 8, {50, 49, 30}, {50, 46});
  AddConversions(calls, 64, {61, 45, 50, 51}, {61});
  AddKeySwitches(calls, {8, 3, {50, 40, 45, 40}, {50}, 1});
  AddKeySwitches(calls, {64, 2, {61, 50, 50, 51, 49}, {61, 61}, 2});
  return calls;
}

}  // namespace fhejax
