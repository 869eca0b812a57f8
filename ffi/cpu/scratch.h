// Memory of a handler's own, not initialised.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace fhejax {

using Scratch = std::unique_ptr<uint64_t[]>;

inline Scratch MakeScratch(int64_t words) { return Scratch(new uint64_t[words]); }

// The calling thread's own buffer, kept from task to task; contents are not. Its size is bounded by the largest
// request: a few rows.
inline uint64_t* TaskScratch(int64_t words) {
  thread_local std::vector<uint64_t> buffer;
  if (static_cast<int64_t>(buffer.size()) < words) buffer.resize(words);
  return buffer.data();
}

}  // namespace fhejax
