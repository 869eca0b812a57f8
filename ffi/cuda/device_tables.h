// Tables on devices: made once a device, kept for the life of the process, found by what they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/device.h"

namespace fhejax {

struct TableKey {
  int device;
  std::string name;
  std::vector<uint64_t> words;
};

// Null if there is none.
const void* FindTable(const TableKey& key);

// Copies `bytes` of `host` to the device and returns once they are there for every stream. Allocates and waits: for the
// initialize stage.
cudaError_t MakeTable(const TableKey& key, const void* host, size_t bytes, const void** table);

}  // namespace fhejax
