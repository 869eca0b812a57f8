// Checked memory: which addresses a kernel may touch, and who touched them before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace fhejax::emulator {

constexpr int kWarp = 32;

enum class Kind : uint8_t { kRead, kWrite, kAtomic };

// An access of a granule of four bytes.
struct Access {
  uint64_t block = 0;    // numbered over all launches from 1; 0: nobody
  uint32_t barrier = 0;  // how many __syncthreads the block had passed
  uint32_t clock = 0;    // the lane's own entry of its clock
  uint16_t thread = 0;
  uint8_t bytes = 0;  // a bit for each of the four
  Kind kind = Kind::kRead;
  void* from = nullptr;  // program counter
};

// The thread that runs: what its accesses are stamped with.
struct Observer {
  uint64_t first_block;  // of this launch; what earlier ones did is ordered before
  uint64_t block;
  uint32_t barrier;
  uint16_t thread;
  const uint32_t* clock;  // [kWarp]: how much of each lane's past is ordered before
};

enum class Region : uint8_t { kOperand, kTable, kResult, kShared };

class Memory {
 public:
  // Accesses of `tracked` memory are remembered; of what kernels only read they need not be.
  void Add(const void* data, size_t bytes, Region kind, bool tracked);
  void Remove(const void* data);
  void SetArguments(const void* data, size_t bytes);

  void Check(uintptr_t address, size_t bytes, Kind kind, void* from, const Observer& observer);

  std::string Describe() const;  // of what was found
  void Forget() { findings_.clear(), seen_.clear(); }

 private:
  struct Granule {
    Access write, reads[2];
  };
  struct Range {
    uintptr_t begin, end;
    Region kind;
    std::vector<Granule> granules;  // none where nothing is tracked
  };
  struct Finding {
    const char* what;
    Region region;
    Access first, second;
  };

  Range* Find(uintptr_t address, size_t bytes);
  bool IsConstant(uintptr_t address, size_t bytes) const;
  void CheckGranule(Granule& granule, const Range& range, const Access& now, const Observer& observer);
  void Report(const char* what, Region region, const Access& first, const Access& second);

  std::map<uintptr_t, Range> ranges_;
  Range* last_ = nullptr;
  uintptr_t arguments_begin_ = 0, arguments_end_ = 0;
  std::vector<Finding> findings_;
  std::set<std::tuple<const char*, void*, void*>> seen_;
};

}  // namespace fhejax::emulator
