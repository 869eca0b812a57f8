// Automorphisms of a ciphertext with their key switches; ModUp is done once for all of them.

#include "cuda/handlers.h"
#include "cuda/key_switch.h"

namespace fhejax {
namespace {

// The automorphism of (c0 + u0 / P, u1 / P): the end of a division of u. Entries are components of pairs. A word goes
// where the automorphism takes it; aligned blocks go to such blocks, so the words of a warp stay side by side.
struct RotatedQuotient {
  Quotient quotient;
  Batch<1> batch;
  const uint64_t* c;  // [entries, 2, kept, N], reduced
  uint32_t inverse_element;

  __device__ __forceinline__ bool Skips(const Tile&) const { return false; }
  template <typename A>
  __device__ __forceinline__ auto Writer(const Tile& tile, const Limb&, const typename A::Modulus& q) const {
    const int log_degree = quotient.log_degree;
    const uint32_t kept = quotient.kept, inverse = inverse_element;
    const uint64_t* const row = quotient.from + tile.entry * quotient.from_stride + (uint64_t{tile.limb} << log_degree);
    uint64_t* const out = quotient.to + ((uint64_t{tile.entry} * kept + tile.limb) << log_degree);
    const bool first = tile.entry % 2 == 0;
    const uint64_t* const added =
        c + ((uint64_t{2} * batch.Entry(0, tile.entry / 2) * kept + tile.limb) << log_degree);
    const typename A::Factor w = SumOf<A>::FactorOf(quotient.inverses[tile.limb]);
    return [=](uint32_t k, typename A::Word lift) {
      typename A::Word x = A::Multiply(A::Subtract(A::Load(row[k]), lift, q), w, q);
      if (first) x = A::Add(x, A::Load(added[k]));
      out[AutomorphismSource(k, log_degree, inverse)] = A::Store(x, q);
    };
  }
};

ffi::Error Refuse(const char* why) {
  return ffi::Error::InvalidArgument(std::string("fhejax_hoisted_rotations: ") + why);
}

// Operands: c u64[*batch, 2, limbs, N], then one key for each element; one result like c for each, and the workspace.
ffi::Error HoistedRotationsHandler(Call& call, Input c, ffi::RemainingArgs operands, ffi::RemainingRets results,
                                   Moduli moduli, Moduli special, Moduli elements, int64_t digit_size) {
  const Dimensions shape = ShapeOf(c);
  if (shape.size() < 3 || shape[shape.size() - 2] != static_cast<int64_t>(moduli.size()) || shape[shape.size() - 3] != 2 ||
      special.size() == 0 || elements.size() == 0 || results.size() != elements.size() + 1)
    return Refuse("operands or results do not fit");
  SwitchPlan plan;
  if (auto error = MakeSwitchPlan(call, shape.back(), moduli, special, digit_size, plan); error.failure()) return error;
  std::vector<SwitchKey> keys(elements.size());
  uint32_t seeds = 0, pairs = 0;
  size_t index = 0;
  for (size_t r = 0; r < elements.size(); ++r) {
    if (index >= operands.size()) return Refuse("a key is missing");
    if (auto error = TakeKey(operands, index, plan, keys[r]); error.failure()) return error;
    if (!IsElement(static_cast<int64_t>(elements.begin()[r]), shape.back())) return Refuse("no galois element");
    auto out = results.get<ffi::Buffer<ffi::U64>>(r);
    if (out.has_error()) return out.error();
    if (ShapeOf(**out).size() < 3) return Refuse("a result does not fit");
    seeds = std::max(seeds, keys[r].seed_count());
    pairs = std::max(pairs, static_cast<uint32_t>(Product(ShapeOf(**out), 0, ShapeOf(**out).size() - 3)));
  }
  if (index != operands.size()) return Refuse("keys are left over");
  auto workspace = results.get<ffi::Buffer<ffi::U64>>(elements.size());
  if (workspace.has_error()) return workspace.error();

  const uint32_t kept = plan.own_limbs(), polynomials = static_cast<uint32_t>(Product(shape, 0, shape.size() - 3));
  const uint64_t words = plan.own_words();
  const SwitchMemory memory =
      SwitchMemoryIn(call, *workspace, plan, {polynomials, seeds, pairs, kept, elements.size() > 1});
  const uint64_t* const c0 = c.typed_data();
  LaunchRaise(call, plan, memory, polynomials, ReadRows{c0 + words, 2 * words, plan.log_degree});
  for (size_t r = 0; r < elements.size(); ++r) {
    Output out = *results.get<ffi::Buffer<ffi::U64>>(r);
    const auto batch = SwitchBatchOf(ShapeOf(*out), {shape, 3}, keys[r], {shape, 3});
    const auto c_batch = BroadcastOf<1>({ShapeOf(*out), 3}, {OperandShape{shape, 3}});
    if (!batch || !c_batch) return Refuse("batch axes do not broadcast");
    LaunchMultiply(call, plan, memory, *batch, keys[r],
                   OwnRows{c0 + words, nullptr, nullptr, nullptr, 2 * words, kept, static_cast<uint32_t>(plan.n())},
                   ProductRows(plan, memory));
    const Division division = DivisionOf(plan, memory, batch->count, kept);
    const auto element = static_cast<uint32_t>(elements.begin()[r]);
    LaunchDivision(call, division,
                   RotatedQuotient{QuotientOf(call, division, out->typed_data()), *c_batch, c0,
                                   InverseElement(element, plan.log_degree)});
  }
  return call.Result();
}

}  // namespace

FHEJAX_CUDA_HANDLER(FhejaxHoistedRotations, HoistedRotationsHandler,
                    .Arg<Input>()
                        .RemainingArgs()
                        .RemainingRets()
                        .Attr<Moduli>("moduli")
                        .Attr<Moduli>("special")
                        .Attr<Moduli>("elements")
                        .Attr<int64_t>("digit_size"));

}  // namespace fhejax
