// Sums of plaintexts times rotations of ciphertexts, modulo QP and times P: one ModUp a ciphertext, and no ModDown. All
// rotations first, then each sum of them.

#include <map>

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

constexpr uint64_t kIdentity = 1;  // the galois element of no rotation
constexpr uint32_t kSumWords = 2;  // of a thread

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

// The pairs (P c0 + u0, u1) rotated, for one baby of a ciphertext with these digits. `key`: null for the identity.
void LaunchBaby(Call& call, const handlers::HoistedSums& in, const SwitchPlan& plan, const SwitchMemory& memory,
                const Argument<const uint64_t>& c, const KeyArgument* key, uint64_t element, uint64_t* to) {
  const uint64_t words = plan.own_words();
  const uint64_t *const c0 = c.data, *const c1 = c.data + words;
  const auto n = static_cast<uint32_t>(plan.n());
  const Shape batch = in.out[0].batch(), own_batch = c.batch();
  OwnRows own{c1, c0, nullptr, Products(call, plan.moduli, plan.special), 2 * words, plan.own_limbs(), n};
  if (key)
    return LaunchMultiply(call, plan, memory, SwitchBatchOf(call, batch, own_batch, *key, own_batch), *key, own,
                          RotatedPairs{to, nullptr, InverseElement(static_cast<uint32_t>(element), plan.log_degree),
                                       plan.all_limbs(), plan.log_degree});
  own.own = nullptr, own.second = c1;
  const auto entries = BatchOf<kSwitchOperands>(call, batch, {own_batch, own_batch, own_batch, own_batch});
  LaunchMultiplyByKey(call, entries, DigitRows{nullptr, 0, 1, plan.own_limbs(), plan.all_limbs(), n}, KeyRows{}, own,
                      PairRows{to, plan.all_limbs(), n}, plan.limbs);
}

// All rotations, pair_words apart.
void LaunchBabies(Call& call, const handlers::HoistedSums& in, const SwitchPlan& plan, uint64_t pair_words) {
  SwitchMemory memory{in.workspace.coefficients, in.workspace.raised, in.workspace.masks};
  std::vector<uint64_t*> raised;
  for (const auto& c : in.ciphertexts) {
    const auto entries = static_cast<uint32_t>(c.entries);
    raised.push_back(memory.raised);
    LaunchRaise(call, plan, memory, entries, ReadRows{c.data + plan.own_words(), 2 * plan.own_words(), plan.log_degree});
    memory.raised += entries * plan.digits * plan.all_words();
  }
  std::map<uint64_t, const KeyArgument*> keys{{kIdentity, nullptr}};  // in the order of first use
  for (int64_t b = 0; b < in.babies; ++b) {
    const uint64_t element = in.elements[b], source = in.sources[b];
    const KeyArgument* const key = keys.try_emplace(element, in.keys.data() + keys.size() - 1).first->second;
    memory.raised = raised[source];
    LaunchBaby(call, in, plan, memory, in.ciphertexts[source], key, element, in.workspace.rotated + b * pair_words);
  }
}

void HoistedSums(Call& call, const handlers::HoistedSums& in) {
  const SwitchPlan plan = SwitchPlanOf(call, in);
  LaunchBabies(call, in, plan, 2 * static_cast<uint64_t>(in.batch) * plan.all_words());
  const auto n = static_cast<uint32_t>(plan.n()), threads = std::min(kThreads, n / kSumWords);
  const int log_width = LogOf(in.width);
  const Grid grid{n / (kSumWords * threads), static_cast<uint32_t>(in.batch), plan.all_limbs()};
  const auto batch = BatchOf<1>(call, in.out[0].batch(), {in.plains.batch()});
  const auto* const babies = call.Table<uint32_t>("terms", PrimesOf(in.terms), [&] {
    return std::vector<uint32_t>(in.terms.begin(), in.terms.end());
  });
  uint32_t first = 0;
  for (int64_t s = 0; s < in.sum_count; ++s) {
    const auto count = static_cast<uint32_t>(in.sizes[s]);
    call.Launch(SumRotations, grid.blocks(), dim3(threads), 0, grid, batch,
                SumTerms{babies, in.workspace.rotated, in.plains.data, in.out[s].data, first, count,
                         static_cast<uint32_t>(in.term_count), n, log_width, plan.log_degree - log_width},
                plan.limbs);
    first += count;
  }
}

}  // namespace

FHEJAX_CUDA_HANDLER(HoistedSums, HoistedSums);

}  // namespace fhejax
