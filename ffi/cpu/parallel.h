// A loop over XLA's intra-op pool that cannot deadlock.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace fhejax {

// Calls body(i) for i in [0, count). A handler may itself run on a pool thread, so waiting for a *queued* task can
// wait for ever: the caller works too, and waits only for items already *claimed*. A task that starts late finds
// nothing left and touches nothing but the shared counters.
template <typename Body>
void ParallelFor(xla::ffi::ThreadPool& pool, int64_t count, const Body& body) {
  struct Progress {
    std::atomic<int64_t> claimed{0}, finished{0};
    std::mutex mutex;
    std::condition_variable all_done;
  };
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), count) - 1;
  if (helpers <= 0) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  const auto progress = std::make_shared<Progress>();
  const Body* const work_item = &body;  // alive while any claimed item runs
  const auto work = [progress, work_item, count] {
    for (int64_t i; (i = progress->claimed.fetch_add(1)) < count;) {
      (*work_item)(i);
      if (progress->finished.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(progress->mutex);
        progress->all_done.notify_all();
      }
    }
  };
  for (int64_t t = 0; t < helpers; ++t) pool.Schedule([work] { work(); });
  work();
  std::unique_lock<std::mutex> lock(progress->mutex);
  progress->all_done.wait(lock, [&] { return progress->finished.load() == count; });
}

}  // namespace fhejax
