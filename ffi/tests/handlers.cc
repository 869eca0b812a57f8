// Every handler, from several threads at once over one pool: with each instruction set the same bits, which are those
// of the portable kernels in one thread.

#include "cpu/handlers.h"

#include <numeric>

#include "cpu/kernels.h"
#include "tests/calls.h"
#include "tests/numbers.h"

namespace fhejax {
namespace {

using Results = std::vector<std::vector<Array>>;

// All calls, in an order of the thread's own.
Results RunAll(const Handlers& handlers, const Calls& calls, Workers& workers, uint64_t order) {
  std::vector<size_t> indices(calls.size());
  std::iota(indices.begin(), indices.end(), 0);
  std::shuffle(indices.begin(), indices.end(), std::mt19937_64(order));
  Results results(calls.size());
  for (const size_t i : indices) results[i] = Run(calls[i], handlers.at(calls[i].name), workers);
  return results;
}

}  // namespace

Handlers LinkedHandlers() {
  Handlers handlers;
#define FHEJAX_ADD(Name, target) handlers.emplace(target, Fhejax##Name);
  FHEJAX_HANDLERS(FHEJAX_ADD)
#undef FHEJAX_ADD
  return handlers;
}

void CheckHandlers() {
  constexpr int kThreads = 3;
  const Handlers handlers = LinkedHandlers();
  const Calls calls = AllCalls();
  std::vector<Results> all;
  Workers workers(kThreads);
  for (const Kernels* kernels : AvailableKernels()) {
    ChooseKernels(kernels->name);
    std::vector<Results> results(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { results[t] = RunAll(handlers, calls, workers, t); });
    for (std::thread& thread : threads) thread.join();
    all.insert(all.end(), results.begin(), results.end());
    std::fprintf(stderr, "%s: handlers in %d threads\n", kernels->name, kThreads);
  }
  Workers one(1);
  const Results expected = RunAll(handlers, calls, one, 0);  // the portable kernels are last
  for (const Results& results : all)
    for (size_t i = 0; i < calls.size(); ++i)
      for (size_t k = 0; k < expected[i].size(); ++k)
        Require(results[i][k].words == expected[i][k].words,
                calls[i].name + ", n = " + std::to_string(calls[i].results[k].shape.back()));
}

}  // namespace fhejax
