// Sums of plaintexts times rotations of ciphertexts, modulo QP and times P: one ModUp a ciphertext, and no ModDown. All
// rotations first, then each sum of them.

#include <map>

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

constexpr uint64_t kIdentity = 1;  // the galois element of no rotation
constexpr uint32_t kSumWords = 2;  // of a thread

ffi::Error Refuse(const char* why) { return ffi::Error::InvalidArgument(std::string("fhejax_hoisted_sums: ") + why); }

// One sum: terms first .. first + count - 1.
struct SumTerms {
  const uint32_t* babies;   // of every term
  const uint64_t* rotated;  // [babies, entries, 2, limbs, N], reduced
  const uint64_t* plains;   // [entries, all terms, limbs, width], reduced
  uint64_t* to;             // [entries, 2, limbs, N]
  uint32_t first, count, terms, n;
  int log_width, log_run;  // of a plaintext's row, each value of which stands for 2^log_run in a row
};

// A tile is kSumWords * blockDim.x words of a row of both halves. From reduced words to reduced words.
__global__ void __launch_bounds__(kThreads) SumRotations(Grid grid, Batch<1> batch, SumTerms sum, const Limb* limbs) {
  const Tile tile = grid.At(blockIdx.x);
  const Limb& limb = limbs[tile.limb];
  const uint64_t half = uint64_t{grid.limbs} * sum.n, row = uint64_t{tile.limb} * sum.n;
  const uint64_t plain_step = uint64_t{grid.limbs} << sum.log_width;
  const uint64_t* const plains = sum.plains + (uint64_t{batch.Entry(0, tile.entry)} * sum.terms + sum.first) * plain_step +
                                 (uint64_t{tile.limb} << sum.log_width);
  const uint32_t start = tile.index * kSumWords * blockDim.x + threadIdx.x;
  WithArithmetic(limb, [&](auto arithmetic) {
    using A = decltype(arithmetic);
    using S = SumOf<A>;
    const typename A::Modulus q = A::ModulusOf(limb);
    typename S::Sum first[kSumWords], second[kSumWords];
#pragma unroll
    for (uint32_t each = 0; each < kSumWords; ++each) first[each] = second[each] = S::From(0);
    int products = 0;
    for (uint32_t t = 0; t < sum.count; ++t) {
      const uint64_t* const x =
          sum.rotated + (uint64_t{sum.babies[sum.first + t]} * grid.entries + tile.entry) * 2 * half + row;
      if (products == S::kProducts) {
#pragma unroll
        for (uint32_t each = 0; each < kSumWords; ++each) S::Settle(first[each], q), S::Settle(second[each], q);
        products = 0;
      }
#pragma unroll
      for (uint32_t each = 0; each < kSumWords; ++each) {
        const uint32_t k = start + each * blockDim.x;
        if (k >= sum.n) continue;
        const typename A::Word plain = A::Load(plains[t * plain_step + (k >> sum.log_run)]);
        S::Add(first[each], A::Load(x[k]), plain, q);
        S::Add(second[each], A::Load(x[half + k]), plain, q);
      }
      ++products;
    }
    uint64_t* const to = sum.to + 2 * tile.entry * half + row;
#pragma unroll
    for (uint32_t each = 0; each < kSumWords; ++each) {
      const uint32_t k = start + each * blockDim.x;
      if (k < sum.n) to[k] = S::Reduced(first[each], q), to[half + k] = S::Reduced(second[each], q);
    }
  });
}

// A ciphertext u64[*batch, 2, limbs, N]; its digits, if it is rotated.
struct Ciphertext {
  const uint64_t* data;
  OperandShape shape;
  bool rotated = false;
  uint64_t* raised = nullptr;

  uint32_t entries() const { return static_cast<uint32_t>(Product(shape.shape, 0, shape.shape.size() - 3)); }
};

struct Job {
  SwitchPlan plan;
  std::vector<Ciphertext> ciphertexts;
  std::map<uint64_t, SwitchKey> keys;  // by galois element
  Dimensions result;                   // the shape of a sum
  Input plains;
  Batch<1> plains_batch;
  Moduli sources, elements, sizes, terms;
  uint32_t entries = 0;

  Job(Input plains, Moduli sources, Moduli elements, Moduli sizes, Moduli terms)
      : plains(plains), sources(sources), elements(elements), sizes(sizes), terms(terms) {}

  uint32_t seeds() const {
    uint32_t most = 0;
    for (const auto& [element, key] : keys) most = std::max(most, key.seed_count());
    return most;
  }
};

ffi::Error TakeCiphertexts(Call& call, ffi::RemainingArgs operands, int64_t inputs, Moduli moduli, Moduli special,
                           int64_t digit_size, Job& job) {
  for (int64_t i = 0; i < inputs; ++i) {
    auto c = operands.get<Input>(i);
    if (c.has_error()) return c.error();
    const Dimensions shape = ShapeOf(*c);
    if (shape.size() < 3 || shape[shape.size() - 3] != 2 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()))
      return Refuse("a ciphertext does not fit");
    if (i == 0)
      if (auto error = MakeSwitchPlan(call, shape.back(), moduli, special, digit_size, job.plan); error.failure())
        return error;
    if (shape.back() != static_cast<int64_t>(job.plan.n())) return Refuse("degrees differ");
    job.ciphertexts.push_back({c->typed_data(), {shape, 3}});
  }
  return ffi::Error::Success();
}

// One key for each element that is not the identity, in the order of first use.
ffi::Error TakeKeys(ffi::RemainingArgs operands, size_t index, Job& job) {
  for (size_t b = 0; b < job.elements.size(); ++b) {
    const uint64_t element = job.elements.begin()[b], source = job.sources.begin()[b];
    if (source >= job.ciphertexts.size()) return Refuse("no such ciphertext");
    if (element == kIdentity) continue;
    job.ciphertexts[source].rotated = true;
    if (job.keys.count(element)) continue;
    if (!IsElement(static_cast<int64_t>(element), static_cast<int64_t>(job.plan.n()))) return Refuse("no galois element");
    if (index >= operands.size()) return Refuse("a key is missing");
    if (auto error = TakeKey(operands, index, job.plan, job.keys[element]); error.failure()) return error;
  }
  return index == operands.size() ? ffi::Error::Success() : Refuse("keys are left over");
}

ffi::Error CheckSums(ffi::RemainingRets results, Job& job) {
  uint64_t terms = 0;
  if (job.sizes.size() == 0 || results.size() != job.sizes.size() + 1) return Refuse("needs a result for each sum");
  for (const uint64_t size : job.sizes) terms += size;
  if (terms != job.terms.size()) return Refuse("terms do not fit the sums");
  for (const uint64_t baby : job.terms)
    if (baby >= job.elements.size()) return Refuse("no such rotation");
  auto out = results.get<ffi::Buffer<ffi::U64>>(0);
  if (out.has_error()) return out.error();
  job.result = ShapeOf(**out);
  const Dimensions plains = ShapeOf(job.plains);
  const auto n = static_cast<int64_t>(job.plan.n());
  if (job.result.size() < 3 || plains.size() < 3 || plains[plains.size() - 2] != job.plan.all_limbs() ||
      plains[plains.size() - 3] != static_cast<int64_t>(terms) || plains.back() < 1 || n % plains.back() != 0)
    return Refuse("the plaintexts do not fit");
  const auto batch = BroadcastOf<1>({job.result, 3}, {OperandShape{plains, 3}});
  if (!batch) return Refuse("batch axes do not broadcast");
  job.plains_batch = *batch;
  job.entries = batch->count;
  return ffi::Error::Success();
}

// The pairs (P c0 + u0, u1) rotated, for one baby.
ffi::Error LaunchBaby(Call& call, const Job& job, const Ciphertext& c, uint64_t element, SwitchMemory memory,
                      uint64_t* to) {
  const SwitchPlan& plan = job.plan;
  const uint64_t words = plan.own_words();
  const uint64_t *const c0 = c.data, *const c1 = c.data + words;
  const auto n = static_cast<uint32_t>(plan.n());
  const SwitchKey none{nullptr, nullptr, c.shape, c.shape};
  const SwitchKey& key = element == kIdentity ? none : job.keys.at(element);
  const auto batch = SwitchBatchOf(job.result, c.shape, key, c.shape);
  if (!batch) return Refuse("batch axes do not broadcast");
  OwnRows own{c1, c0, nullptr, Products(call, plan.moduli, plan.special), 2 * words, plan.own_limbs(), n};
  if (element == kIdentity) {
    own.own = nullptr, own.second = c1;
    LaunchMultiplyByKey(call, *batch, DigitRows{nullptr, 0, 1, plan.own_limbs(), plan.all_limbs(), n}, KeyRows{}, own,
                        PairRows{to, plan.all_limbs(), n}, plan.limbs);
  } else {
    memory.raised = c.raised;
    LaunchMultiply(call, plan, memory, *batch, key, own,
                   RotatedPairs{to, nullptr, InverseElement(static_cast<uint32_t>(element), plan.log_degree),
                                plan.all_limbs(), plan.log_degree});
  }
  return ffi::Error::Success();
}

void LaunchSums(Call& call, const Job& job, const uint64_t* rotated, ffi::RemainingRets results) {
  const SwitchPlan& plan = job.plan;
  const auto n = static_cast<uint32_t>(plan.n()), threads = std::min(kThreads, n / kSumWords);
  const int log_width = LogOf(ShapeOf(job.plains).back());
  const Grid grid{n / (kSumWords * threads), job.entries, plan.all_limbs()};
  const auto* const babies = call.Table<uint32_t>("terms", PrimesOf(job.terms), [&] {
    return std::vector<uint32_t>(job.terms.begin(), job.terms.end());
  });
  uint32_t first = 0;
  for (size_t s = 0; s < job.sizes.size(); ++s) {
    const auto count = static_cast<uint32_t>(job.sizes.begin()[s]);
    auto out = results.get<ffi::Buffer<ffi::U64>>(s);
    if (out.has_error()) return call.RefuseArguments("a sum is missing");
    call.Launch(SumRotations, grid.blocks(), dim3(threads), 0, grid, job.plains_batch,
                SumTerms{babies, rotated, job.plains.typed_data(), (*out)->typed_data(), first, count,
                         static_cast<uint32_t>(job.terms.size()), n, log_width, plan.log_degree - log_width},
                plan.limbs);
    first += count;
  }
}

// Operands: `inputs` ciphertexts u64[*batch, 2, limbs, N], the plaintexts u64[*batch, terms, limbs + special, width],
// and keys. One result u64[*batch, 2, limbs + special, N] for each sum, and the workspace.
ffi::Error HoistedSumsHandler(Call& call, ffi::RemainingArgs operands, ffi::RemainingRets results, Moduli moduli,
                              Moduli special, int64_t digit_size, int64_t inputs, Moduli sources, Moduli elements,
                              Moduli sizes, Moduli terms) {
  if (inputs < 1 || static_cast<size_t>(inputs) >= operands.size() || sources.size() != elements.size())
    return Refuse("operands are missing");
  auto plains = operands.get<Input>(inputs);
  if (plains.has_error()) return plains.error();
  Job job(*plains, sources, elements, sizes, terms);
  if (auto error = TakeCiphertexts(call, operands, inputs, moduli, special, digit_size, job); error.failure()) return error;
  if (auto error = TakeKeys(operands, static_cast<size_t>(inputs) + 1, job); error.failure()) return error;
  if (auto error = CheckSums(results, job); error.failure()) return error;
  auto workspace = results.get<ffi::Buffer<ffi::U64>>(sizes.size());
  if (workspace.has_error()) return workspace.error();

  const SwitchPlan& plan = job.plan;
  uint64_t most = 0, polynomials = 0;
  for (const Ciphertext& c : job.ciphertexts)
    if (c.rotated) most = std::max<uint64_t>(most, c.entries()), polynomials += c.entries();
  const uint64_t raised = plan.digits * plan.all_words(), pairs = 2 * job.entries * plan.all_words();
  uint64_t* next = call.Workspace(
      *workspace, most * plan.own_words() + (polynomials + job.seeds()) * raised + elements.size() * pairs);
  SwitchMemory memory{};
  memory.coefficients = next;
  next += most * plan.own_words();
  for (Ciphertext& c : job.ciphertexts) {
    if (!c.rotated) continue;
    memory.raised = c.raised = next;
    next += c.entries() * raised;
    LaunchRaise(call, plan, memory, c.entries(),
                ReadRows{c.data + plan.own_words(), 2 * plan.own_words(), plan.log_degree});
  }
  memory.masks = next;
  uint64_t* const rotated = next + job.seeds() * raised;
  for (size_t b = 0; b < elements.size(); ++b)
    if (auto error = LaunchBaby(call, job, job.ciphertexts[sources.begin()[b]], elements.begin()[b], memory,
                                rotated + b * pairs);
        error.failure())
      return error;
  LaunchSums(call, job, rotated, results);
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxHoistedSums, HoistedSumsHandler,
                    .RemainingArgs()
                        .RemainingRets()
                        .Attr<Moduli>("moduli")
                        .Attr<Moduli>("special")
                        .Attr<int64_t>("digit_size")
                        .Attr<int64_t>("inputs")
                        .Attr<Moduli>("sources")
                        .Attr<Moduli>("elements")
                        .Attr<Moduli>("sizes")
                        .Attr<Moduli>("terms"));

}  // namespace fhejax
