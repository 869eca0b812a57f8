// What the emulated CUDA language (cuda.h) and handlers need of the emulator.
//
// A launch runs on the calling thread, block by block in random order. Each thread of a block is a fiber that runs
// until it waits (__syncthreads, __syncwarp, a shuffle); which one goes on is drawn at random, so nothing moves in
// lockstep. What is wrong is collected as text, and a handler's scope returns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace fhejax::emulator {

struct Position {
  unsigned x, y, z;
};

struct Extent {
  unsigned x, y, z;
  constexpr Extent(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

struct Site {
  const char* file;
  int line;
};

// Where the running thread is.
Position ThreadIndex();
Position BlockIndex();
Extent BlockExtent();
Extent GridExtent();
void* SharedMemory();

// What it waits for. A barrier is its line of source.
void BlockBarrier(Site site);
void WarpBarrier(uint32_t mask, Site site);
uint64_t Shuffle(uint32_t mask, uint64_t value, int source_lane, Site site);
int Lane();

// Tells the checks of an atomic access; plain ones are announced by the compiler (hooks.cc).
void OnAtomic(void* address, size_t bytes, void* from);

// What a launch calls in every thread: body(data), with data of so many bytes that kernels may read.
struct Task {
  void (*body)(const void* data);
  const void* data;
  size_t bytes;
};

void Launch(Extent grid, Extent block, size_t shared_bytes, Task task);

// Device memory that kernels read only, for the life of the process: tables.
void* AllocateTable(size_t bytes);

// The random order, and whether memory accesses are checked, of handlers from now on.
void Configure(uint64_t seed, bool check);

// One call of a handler: one at a time, with the device memory that its kernels may touch.
class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  void AddOperand(const void* data, size_t bytes);
  void AddResult(void* data, size_t bytes);  // filled with 0xa5: memory that has not been written is not zero
  std::string Findings() const;              // empty if all was well

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace fhejax::emulator
