// Values that are made at the first request and kept for the life of the process.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace fhejax {

// A map from keys to values that are never freed: safe to hold by reference.
template <typename Key, typename Value>
class Cache {
 public:
  template <typename Make>
  const Value& Get(const Key& key, const Make& make) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto& entry = values_[key];
    if (!entry) entry = std::make_unique<const Value>(make());
    return *entry;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<const Value>> values_;
};

}  // namespace fhejax
