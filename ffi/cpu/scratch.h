// Memory of a handler's own, not initialised: kept from call to call, on huge pages where the system has them, because
// fresh memory costs a page fault for every 4 KiB.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/tables.h"

namespace fhejax {

class ScratchPool {
 public:
  struct Block {
    uint64_t* words = nullptr;
    int64_t size = 0;
  };

  static ScratchPool& Instance() {
    static ScratchPool& pool = *new ScratchPool;
    return pool;
  }

  Block Take(int64_t size) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto fits = [&](const Block& a) { return a.size >= size; };
      auto best = std::find_if(kept_.begin(), kept_.end(), fits);  // sorted by size: the least that fits
      if (best != kept_.end()) {
        const Block block = *best;
        kept_.erase(best);
        kept_words_ -= block.size;
        return block;
      }
    }
    const int64_t unit = size < kHugePage ? kCacheLine : kHugePage, rounded = (size + unit - 1) / unit * unit;
    void* const memory = std::aligned_alloc(unit * sizeof(uint64_t), rounded * sizeof(uint64_t));
    if (!memory) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (unit == kHugePage) madvise(memory, rounded * sizeof(uint64_t), MADV_HUGEPAGE);
#endif
    return {static_cast<uint64_t*>(memory), rounded};
  }

  // Where there is no room for all, the smallest go: a larger block serves whoever wants a smaller one.
  void Return(Block block) {
    std::vector<Block> dropped;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto larger = [&](const Block& a) { return a.size >= block.size; };
      if (block.size > kKeptWords) {
        dropped.push_back(block);
      } else {
        kept_.insert(std::find_if(kept_.begin(), kept_.end(), larger), block);
        kept_words_ += block.size;
      }
      auto first = kept_.begin();
      for (; kept_words_ > kKeptWords; ++first) kept_words_ -= first->size;
      dropped.insert(dropped.end(), kept_.begin(), first);
      kept_.erase(kept_.begin(), first);
    }
    for (const Block& each : dropped) std::free(each.words);
  }

 private:
  static constexpr int64_t kCacheLine = 8, kHugePage = 1 << 18;  // words
#ifdef __SANITIZE_ADDRESS__
  static constexpr int64_t kKeptWords = 0;  // memory ends where it was asked to end, so that a step beyond it is seen
#else
  static constexpr int64_t kKeptWords = 1 << 25;  // 256 MiB at rest, whatever runs
#endif
  std::mutex mutex_;
  std::vector<Block> kept_;
  int64_t kept_words_ = 0;
};

// So many words on a boundary of 64 bytes, until it goes out of scope.
class Scratch {
 public:
  explicit Scratch(int64_t words) : block_(ScratchPool::Instance().Take(std::max<int64_t>(words, 1))) {}
  ~Scratch() { ScratchPool::Instance().Return(block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  uint64_t* get() const { return block_.words; }

 private:
  ScratchPool::Block block_;
};

// A buffer of the calling thread's own, kept from task to task; contents are not. Its size is bounded by the largest
// request: a few rows. Buffers of different numbers are apart.
template <int kBuffer = 0>
inline uint64_t* TaskScratch(int64_t words) {
  thread_local AlignedWords buffer;
  if (static_cast<int64_t>(buffer.size()) < words) buffer.resize(words);
  return buffer.data();
}

}  // namespace fhejax
