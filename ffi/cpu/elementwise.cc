// Modular arithmetic value by value: one row (batch entry and limb) is one piece of work.

#include <array>

#include "cpu/batch.h"
#include "cpu/handlers.h"
#include "cpu/kernels.h"
#include "cpu/parallel.h"

namespace fhejax {
namespace {

// Calls row(operand rows, out row, values, modulus) for each row of a call with operands u64[*batch, limbs, values].
template <size_t kOperands, typename Stated, typename Row>
void Rows(ffi::ThreadPool& pool, const Stated& in, const Argument<const uint64_t>* const (&operands)[kOperands],
          const Row& row) {
  PrepareResult(in.out);
  std::array<std::vector<int64_t>, kOperands> entries;
  for (size_t k = 0; k < kOperands; ++k) entries[k] = EntriesOf(in.out.batch(), *operands[k]);
  ParallelFor(pool, in.batch * in.limbs, [&](int64_t task) {
    const int64_t limb = task / in.batch, entry = task % in.batch;  // what broadcasts stays in the cache
    std::array<const uint64_t*, kOperands> rows;
    for (size_t k = 0; k < kOperands; ++k)
      rows[k] = operands[k]->data + (entries[k][entry] * in.limbs + limb) * in.values;
    row(rows, in.out.data + (entry * in.limbs + limb) * in.values, in.values, ModulusFor(in.moduli[limb]));
  });
}

void AddRows(ffi::ThreadPool& pool, const handlers::Add& in) {
  Rows<2>(pool, in, {&in.a, &in.b}, [](const auto& from, uint64_t* to, int64_t n, const Modulus& q) {
    ActiveKernels().add(from[0], from[1], to, n, q);
  });
}

void SubtractRows(ffi::ThreadPool& pool, const handlers::Subtract& in) {
  Rows<2>(pool, in, {&in.a, &in.b}, [](const auto& from, uint64_t* to, int64_t n, const Modulus& q) {
    ActiveKernels().subtract(from[0], from[1], to, n, q);
  });
}

constexpr int64_t kCache = int64_t{1} << 24;  // bytes of a result that a cache may still hold when it is read

void MultiplyRows(ffi::ThreadPool& pool, const handlers::Multiply& in) {
  const auto multiply = in.out.bytes() <= kCache ? ActiveKernels().multiply : ActiveKernels().multiply_past_caches;
  Rows<2>(pool, in, {&in.a, &in.b}, [multiply](const auto& from, uint64_t* to, int64_t n, const Modulus& q) {
    multiply(from[0], from[1], to, n, q);
  });
}

void MultiplyAddRows(ffi::ThreadPool& pool, const handlers::MultiplyAdd& in) {
  Rows<3>(pool, in, {&in.a, &in.b, &in.c}, [](const auto& from, uint64_t* to, int64_t n, const Modulus& q) {
    ActiveKernels().multiply_add(from[0], from[1], from[2], to, n, q);
  });
}

void ScaleRows(ffi::ThreadPool& pool, const handlers::MultiplyScalar& in) {
  PrepareResult(in.out);
  const int64_t n = in.values;
  const auto a_entries = EntriesOf(in.out.batch(), in.a), scalar_entries = EntriesOf(in.out.batch(), in.scalar);
  ParallelFor(pool, in.batch * in.limbs, [&](int64_t task) {
    const int64_t entry = task / in.limbs, limb = task % in.limbs;
    const Modulus& q = ModulusFor(in.moduli[limb]);
    const Factor w = MakeFactor(in.scalar.data[scalar_entries[entry] * in.limbs + limb], q.value);
    ActiveKernels().multiply_factor(in.a.data + (a_entries[entry] * in.limbs + limb) * n, w, in.out.data + task * n, n, q);
  });
}

}  // namespace

FHEJAX_CPU_HANDLER(Add, AddRows);
FHEJAX_CPU_HANDLER(Subtract, SubtractRows);
FHEJAX_CPU_HANDLER(Multiply, MultiplyRows);
FHEJAX_CPU_HANDLER(MultiplyAdd, MultiplyAddRows);
FHEJAX_CPU_HANDLER(MultiplyScalar, ScaleRows);

}  // namespace fhejax
