// Every kernel of every instruction set against the portable one, each row in an allocation of its own.

#include "cpu/kernels.h"

#include "cpu/automorphism.h"
#include "tests/numbers.h"

namespace fhejax {
namespace {

struct Rows {
  std::vector<AlignedWords> rows;

  Rows(int64_t count, int64_t n) : rows(count, AlignedWords(n)) {}
  Rows(int64_t count, int64_t n, uint64_t bound, Fill fill) {
    for (int64_t i = 0; i < count; ++i) rows.push_back(RandomRow(n, bound, fill));
  }
  std::vector<const uint64_t*> in() const {
    std::vector<const uint64_t*> pointers;
    for (const AlignedWords& row : rows) pointers.push_back(row.data());
    return pointers;
  }
  std::vector<uint64_t*> out() {
    std::vector<uint64_t*> pointers;
    for (AlignedWords& row : rows) pointers.push_back(row.data());
    return pointers;
  }
};

std::string Named(const Kernels& kernels, const char* loop, int64_t n, uint64_t q, int64_t count) {
  return std::string(kernels.name) + " " + loop + ", n = " + std::to_string(n) + ", q = " + std::to_string(q) +
         ", rows or terms: " + std::to_string(count);
}

const NttTable& TableOf(const Kernels& kernels, int64_t n, uint64_t q) {
  ChooseKernels(kernels.name);
  return NttTableFor(n, q);
}

Rows ByParts(const Kernels& kernels, Rows x, const NttTable& table) {
  const int64_t n = table.degree, size = PartOf(n);
  const auto rows = x.out();
  const auto count = static_cast<int64_t>(rows.size());
  const Rows next(2, size);
  const auto ahead = next.in();
  kernels.forward_head(rows.data(), count, table);
  for (int64_t part = n / size - 1; part >= 0; --part)
    kernels.forward_tail(rows.data(), count, part, table, {ahead.data(), 2, size});
  return x;
}

void CheckTransforms(const Kernels& kernels, int64_t n, uint64_t q, int64_t count, Fill fill) {
  const NttTable &table = TableOf(kernels, n, q), &plain = TableOf(kPortable, n, q);
  const Factor scale = fill == kRandom ? MakeFactor(RandomBelow(q, fill), q) : table.inverse_degree;
  const Rows x(count, n, q, fill);
  Rows expected(count, n), got(count, n), in_place = x;
  kPortable.forward_ntt(x.in().data(), expected.out().data(), count, plain);
  kernels.forward_ntt(x.in().data(), got.out().data(), count, table);
  kernels.forward_ntt(in_place.in().data(), in_place.out().data(), count, table);
  Require(got.rows == expected.rows && in_place.rows == expected.rows, Named(kernels, "forward_ntt", n, q, count));
  Require(ByParts(kernels, x, table).rows == expected.rows, Named(kernels, "forward_tail", n, q, count));

  in_place = x;
  kPortable.inverse_ntt(x.in().data(), expected.out().data(), count, scale, plain);
  kernels.inverse_ntt(x.in().data(), got.out().data(), count, scale, table);
  kernels.inverse_ntt(in_place.in().data(), in_place.out().data(), count, scale, table);
  Require(got.rows == expected.rows && in_place.rows == expected.rows, Named(kernels, "inverse_ntt", n, q, count));
}

// loop(kernels, a, out), with out apart from a and the same.
template <typename Loop>
void CheckRow(const Kernels& kernels, const char* name, const AlignedWords& a, uint64_t q, const Loop& loop) {
  AlignedWords expected(a.size()), got(a.size()), in_place = a;
  loop(kPortable, a.data(), expected.data());
  loop(kernels, a.data(), got.data());
  loop(kernels, in_place.data(), in_place.data());
  Require(got == expected && in_place == expected, Named(kernels, name, static_cast<int64_t>(a.size()), q, 1));
}

void CheckRows(const Kernels& kernels, int64_t n, uint64_t prime, Fill fill) {
  const Modulus q = MakeModulus(prime);
  const AlignedWords x = RandomRow(n, prime, fill), y = RandomRow(n, prime, fill), z = RandomRow(n, prime, fill);
  const uint64_t *const b = y.data(), *const c = z.data();
  const Factor w = MakeFactor(RandomBelow(prime, fill), prime);
  const auto check = [&](const char* name, const auto& loop) { CheckRow(kernels, name, x, prime, loop); };
  using In = const uint64_t*;
  using Out = uint64_t*;
  check("add", [&](const Kernels& k, In a, Out out) { k.add(a, b, out, n, q); });
  check("subtract", [&](const Kernels& k, In a, Out out) { k.subtract(a, b, out, n, q); });
  check("multiply", [&](const Kernels& k, In a, Out out) { k.multiply(a, b, out, n, q); });
  check("multiply_past_caches", [&](const Kernels& k, In a, Out out) { k.multiply_past_caches(a, b, out, n, q); });
  check("multiply_add", [&](const Kernels& k, In a, Out out) { k.multiply_add(a, b, c, out, n, q); });
  check("multiply_add to the sum", [&](const Kernels& k, In a, Out out) { k.multiply_add(b, c, a, out, n, q); });
  check("multiply_factor", [&](const Kernels& k, In a, Out out) { k.multiply_factor(a, w, out, n, q); });
  check("subtract_multiply", [&](const Kernels& k, In a, Out out) { k.subtract_multiply(a, b, w, out, n, q); });
}

void CheckPermutations(const Kernels& kernels, int64_t n, uint64_t prime) {
  const Modulus q = MakeModulus(prime);
  const Rows x(3, n, prime, kMixed);
  const auto rows = x.in();
  const Factor w = MakeFactor(RandomBelow(prime, kRandom), prime);
  for (const int64_t element : {int64_t{5}, n + 1, 2 * n - 1}) {
    const uint32_t* const source = AutomorphismSource(n, element).data();
    AlignedWords expected(n), got(n);
    kPortable.permute(rows[0], source, expected.data(), n);
    kernels.permute(rows[0], source, got.data(), n);
    Require(got == expected, Named(kernels, "permute", n, prime, 1));
    for (const uint64_t* const c : {rows[2], static_cast<const uint64_t*>(nullptr)}) {
      kPortable.subtract_multiply_permute(rows[0], rows[1], w, c, source, expected.data(), n, q);
      kernels.subtract_multiply_permute(rows[0], rows[1], w, c, source, got.data(), n, q);
      Require(got == expected, Named(kernels, "subtract_multiply_permute", n, prime, 1));
    }
  }
}

void CheckInnerProduct(const Kernels& kernels, int64_t n, int64_t terms, uint64_t prime, Fill fill) {
  const Modulus q = MakeModulus(prime);
  const Rows a(terms, n, prime, fill), b(terms, n, prime, fill);
  AlignedWords expected(n), got(n);
  kPortable.inner_product(a.in().data(), b.in().data(), terms, expected.data(), n, q);
  kernels.inner_product(a.in().data(), b.in().data(), terms, got.data(), n, q);
  Require(got == expected, Named(kernels, "inner_product", n, prime, terms));
}

// To `count` targets; of which sizes, varies with `terms`.
void CheckCombine(const Kernels& kernels, int64_t n, int64_t terms, int64_t count, bool narrow, Fill fill) {
  const std::vector<uint64_t> primes = Chain(8);
  const Rows y(terms, n, uint64_t{1} << (narrow ? 50 : 61), fill);
  const AlignedWords v = RandomRow(n, 512, fill);
  Rows expected(count, n), got(count, n);
  std::vector<Modulus> moduli;
  std::vector<AlignedWords> factors;
  for (int64_t i = 0; i < count; ++i) {
    moduli.push_back(MakeModulus(primes[(i + terms) % primes.size()]));
    factors.push_back(RandomRow(terms, moduli[i].value, fill));
  }
  const auto run = [&](const Kernels& k, Rows& to) {
    std::vector<ConversionTarget> targets;
    for (int64_t i = 0; i < count; ++i)
      targets.push_back({factors[i].data(), moduli[i].value - 1, &moduli[i], to.rows[i].data()});
    k.combine(y.in().data(), v.data(), terms, targets.data(), count, n, narrow);
  };
  run(kPortable, expected);
  run(kernels, got);
  Require(got.rows == expected.rows, Named(kernels, narrow ? "narrow combine" : "combine", n, 0, terms));
}

void CheckOverflow(const Kernels& kernels, int64_t n, int64_t terms, Fill fill) {
  std::vector<int> bits;
  for (int64_t i = 0; i < terms; ++i) bits.push_back(kBits[(i + terms) % std::size(kBits)]);
  const std::vector<uint64_t> primes = Chain(8, bits);
  const std::vector<SourceLimb>& limbs = BasisTableFor(primes, {}).source;
  Rows y(0, n);
  for (const uint64_t q : primes) y.rows.push_back(RandomRow(n, q, fill));
  AlignedWords expected(n), got(n);
  kPortable.overflow(y.in().data(), limbs.data(), terms, expected.data(), n);
  kernels.overflow(y.in().data(), limbs.data(), terms, got.data(), n);
  Require(got == expected, Named(kernels, "overflow", n, 0, terms));
}

void CheckChaCha20(const Kernels& kernels) {
  const uint32_t key[8] = {1, 2, 3, 4, 5, 6, 7, 8}, nonce[3] = {9, 10, 11};
  for (int64_t blocks = 1; blocks < 40; ++blocks) {
    std::vector<uint32_t> expected(16 * blocks), got(16 * blocks);
    const auto first = static_cast<uint32_t>(-5);  // so that the counter wraps
    kPortable.chacha20_blocks(key, nonce, first, blocks, expected.data());
    kernels.chacha20_blocks(key, nonce, first, blocks, got.data());
    Require(got == expected, Named(kernels, "chacha20_blocks", blocks, 0, 1));
  }
}

}  // namespace

void CheckKernels() {
  for (const Kernels* kernels : AvailableKernels()) {
    for (int64_t n = 8; n <= 1 << 13; n *= 2)
      for (const uint64_t q : Chain(n)) {
        for (int64_t rows = 1; rows <= 3 && n * rows <= 1 << 13; ++rows)
          for (const Fill fill : kFills) CheckTransforms(*kernels, n, q, rows, fill);
        if (n <= 1024) CheckPermutations(*kernels, n, q);
      }
    for (const int64_t n : {8, 16, 37, 104, 512})
      for (const uint64_t q : Chain(8))
        for (const Fill fill : kFills) CheckRows(*kernels, n, q, fill);
    for (int64_t terms = 1; terms <= 40; ++terms)
      for (const int64_t n : {8, 40})
        for (const Fill fill : kFills) {
          for (const uint64_t q : Chain(8)) CheckInnerProduct(*kernels, n, terms, q, fill);
          for (const bool narrow : {false, true}) CheckCombine(*kernels, n, terms, 1 + terms % 7, narrow, fill);
          CheckOverflow(*kernels, n, terms, fill);
        }
    CheckChaCha20(*kernels);
    std::fprintf(stderr, "%s: kernels\n", kernels->name);
  }
}

}  // namespace fhejax
