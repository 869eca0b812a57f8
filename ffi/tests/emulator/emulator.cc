// Scheduling: fibers, barriers, warps, launches.
#include "emulator/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "emulator/hooks.h"
#include "emulator/memory.h"

#ifndef __x86_64__
#error "fibers are switched by code for x86-64"
#endif

// fhejax_emulator_switch(void** save, void* load): keeps what a call must keep, and goes on with another stack.
extern "C" void fhejax_emulator_switch(void** save, void* load);
asm(R"(
.text
.type fhejax_emulator_switch, @function
fhejax_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fhejax_emulator_switch, .-fhejax_emulator_switch
)");

namespace fhejax::emulator {
namespace {

constexpr size_t kStack = size_t{1} << 16, kPage = 4096, kSharedLimit = 227 << 10;
constexpr unsigned kThreadLimit = 1024;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kAtShuffle, kExited };

struct Fiber {
  unsigned thread;
  Position index;
  State state;
  char* stack;     // none before it starts and after it ends
  void* context;   // stack pointer while it waits
  Site site;       // of the wait
  uint32_t mask;   // of lanes that it waits for
  uint64_t value;  // that it offers to a shuffle, then what it got
  int source;
  uint32_t clock[kWarp];  // how much of each lane's past happened before; __syncwarp joins, a shuffle does not
};

// Stacks are used again, the last one first: kernels without barriers run on one that is in the cache.
class Stacks {
 public:
  char* Take() {
    if (free_.empty()) {
      // The page below faults.
      void* const pages = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (pages == MAP_FAILED || mprotect(pages, kPage, PROT_NONE)) std::abort();
      return static_cast<char*>(pages) + kPage;
    }
    char* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void Return(char* stack) { free_.push_back(stack); }

 private:
  std::vector<char*> free_;
};

// One emulated device. Everything here runs while no kernel is watched.
class Device {
 public:
  void Launch(Extent grid, Extent block, size_t shared_bytes, Task task);

  // From kernels.
  void Wait(State state, Site site);
  void WaitForWarp(State state, uint32_t mask, Site site);
  void OnAccess(uintptr_t address, size_t bytes, Kind kind, void* from);
  void Main();

  std::mutex mutex;
  std::mt19937_64 random;
  bool check = false;
  Memory memory;
  std::string failure;  // the first; nothing is launched after it
  Fiber* current = nullptr;
  Extent grid, block;
  Position block_index{};
  void* shared = nullptr;

 private:
  void RunBlock();
  void Resume(Fiber& fiber);
  bool ReleaseBlock();
  void TryReleaseWarp(const Fiber& last);
  void Release(Fiber& fiber);
  void Fail(const std::string& what) { failure = failure.empty() ? what : failure; }

  std::vector<Fiber> fibers_;  // of the running block
  std::vector<Fiber*> ready_;
  Stacks stacks_;
  void* scheduler_ = nullptr;  // its stack pointer while a fiber runs
  Task task_{};
  uint64_t blocks_ = 0, first_block_ = 0;
  uint32_t barrier_ = 0;  // how many __syncthreads the block has passed
};

Device& TheDevice() {
  static Device& device = *new Device;
  return device;
}

std::string At(Site site) {
  const char* const slash = std::strrchr(site.file, '/');
  return std::string(slash ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

void FiberEntry() { TheDevice().Main(); }

void Device::Main() {
  SetWatching(check);
  task_.body(task_.data);
  SetWatching(false);
  Fiber& fiber = *current;
  fiber.state = State::kExited;
  for (unsigned t = fiber.thread / kWarp * kWarp; t < fibers_.size() && t / kWarp == fiber.thread / kWarp; ++t)
    if (fibers_[t].state == State::kAtWarpBarrier || fibers_[t].state == State::kAtShuffle)
      TryReleaseWarp(fibers_[t]);  // its exit may be what they wait for
  fhejax_emulator_switch(&fiber.context, scheduler_);
}

void Device::Resume(Fiber& fiber) {
  if (!fiber.stack) {
    fiber.stack = stacks_.Take();
    void** const top = reinterpret_cast<void**>(fiber.stack + kStack);
    top[-1] = nullptr;  // a return address, so that the stack is aligned as after a call
    top[-2] = reinterpret_cast<void*>(&FiberEntry);
    fiber.context = top - 8;
  }
  current = &fiber;
  fhejax_emulator_switch(&scheduler_, fiber.context);
  current = nullptr;
  if (fiber.state != State::kExited) return;
  stacks_.Return(fiber.stack);
  fiber.stack = nullptr;
}

void Device::Wait(State state, Site site) {
  const bool watched = SetWatching(false);
  current->state = state;
  current->site = site;
  fhejax_emulator_switch(&current->context, scheduler_);
  SetWatching(watched);
}

void Device::WaitForWarp(State state, uint32_t mask, Site site) {
  const bool watched = SetWatching(false);
  Fiber& fiber = *current;
  fiber.state = state, fiber.mask = mask, fiber.site = site;
  if (mask >> fiber.thread % kWarp & 1)
    TryReleaseWarp(fiber);
  else
    Fail("thread " + std::to_string(fiber.thread) + " is not in its own mask at " + At(site));
  fhejax_emulator_switch(&fiber.context, scheduler_);
  SetWatching(watched);
}

void Device::Release(Fiber& fiber) {
  fiber.state = State::kReady;
  ready_.push_back(&fiber);
}

// Lets a warp go on once every lane of the mask that has not exited waits for the same.
void Device::TryReleaseWarp(const Fiber& last) {
  const uint32_t mask = last.mask;
  const State state = last.state;
  const unsigned first = last.thread / kWarp * kWarp;
  Fiber* lanes[kWarp] = {};
  uint32_t joined[kWarp] = {};
  uint64_t values[kWarp] = {};
  for (unsigned i = 0; i < kWarp && first + i < fibers_.size(); ++i) {
    Fiber& fiber = fibers_[first + i];
    if (!(mask >> i & 1) || fiber.state == State::kExited) continue;
    if (fiber.state != state || fiber.mask != mask) return;
    lanes[i] = &fiber, values[i] = fiber.value;
    for (int k = 0; k < kWarp; ++k) joined[k] = std::max(joined[k], fiber.clock[k]);
  }
  for (int i = 0; i < kWarp; ++i) {
    if (!lanes[i]) continue;
    if (state == State::kAtWarpBarrier) {
      std::copy(joined, joined + kWarp, lanes[i]->clock);
      ++lanes[i]->clock[i];
    } else if (lanes[lanes[i]->source]) {
      lanes[i]->value = values[lanes[i]->source];
    } else {
      Fail("a shuffle reads lane " + std::to_string(lanes[i]->source) + ", which takes no part, at " + At(lanes[i]->site));
    }
    Release(*lanes[i]);
  }
}

// Nobody can run. All wait at one barrier: they go on (true). All have exited, or the block is stuck: false.
bool Device::ReleaseBlock() {
  std::map<std::string, std::pair<unsigned, unsigned>> groups;  // what they do: how many, the first of them
  size_t exited = 0, waiting = 0;
  for (const Fiber& fiber : fibers_) {
    exited += fiber.state == State::kExited;
    waiting += fiber.state == State::kAtBlockBarrier;
    const std::string what = fiber.state == State::kExited           ? "exited"
                             : fiber.state == State::kAtBlockBarrier ? "wait in __syncthreads at " + At(fiber.site)
                                                                     : "wait for their warp at " + At(fiber.site);
    ++groups.try_emplace(what, 0u, fiber.thread).first->second.first;
  }
  if (exited == fibers_.size()) return false;
  if (waiting == fibers_.size() && groups.size() == 1) {
    ++barrier_;
    for (Fiber& fiber : fibers_) Release(fiber);
    return true;
  }
  std::string text = "divergent barrier:";
  for (const auto& [what, group] : groups)
    text += " " + std::to_string(group.first) + " threads (first " + std::to_string(group.second) + ") " + what + ";";
  Fail(text);
  return false;
}

void Device::RunBlock() {
  barrier_ = 0;
  ready_.clear();
  for (unsigned t = 0; t < fibers_.size(); ++t) {
    Fiber& fiber = fibers_[t];
    fiber.thread = t;
    fiber.index = {t % block.x, t / block.x % block.y, t / block.x / block.y};
    fiber.stack = nullptr;
    std::fill(fiber.clock, fiber.clock + kWarp, 0);
    fiber.clock[t % kWarp] = 1;
    Release(fiber);
  }
  do {
    while (!ready_.empty() && failure.empty()) {
      std::swap(ready_[random() % ready_.size()], ready_.back());
      Fiber* const next = ready_.back();
      ready_.pop_back();
      Resume(*next);
    }
  } while (failure.empty() && ReleaseBlock());
  for (Fiber& fiber : fibers_)  // of a block that is stuck
    if (fiber.stack) stacks_.Return(fiber.stack);
}

void Device::Launch(Extent grid_extent, Extent block_extent, size_t shared_bytes, Task task) {
  if (!failure.empty()) return;
  grid = grid_extent, block = block_extent, task_ = task;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z, blocks = uint64_t{grid.x} * grid.y * grid.z;
  if (!threads || threads > kThreadLimit || !blocks || grid.x > INT32_MAX || grid.y > UINT16_MAX || grid.z > UINT16_MAX ||
      shared_bytes > kSharedLimit)
    return Fail("a launch of " + std::to_string(blocks) + " blocks of " + std::to_string(threads) + " threads with " +
                std::to_string(shared_bytes) + " bytes of shared memory");
  fibers_.resize(threads);
  std::vector<uint64_t> order(blocks);
  for (uint64_t i = 0; i < blocks; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<uint64_t> words((shared_bytes + 7) / 8);
  shared = words.data();
  memory.Add(shared, shared_bytes, Region::kShared, check);
  memory.SetArguments(task.data, task.bytes);
  first_block_ = blocks_ + 1;
  for (const uint64_t at : order) {
    if (!failure.empty()) break;
    ++blocks_;
    block_index = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                   static_cast<unsigned>(at / grid.x / grid.y)};
    std::memset(shared, 0xa5, 8 * words.size());
    RunBlock();
  }
  if (shared_bytes) memory.Remove(shared);
}

void Device::OnAccess(uintptr_t address, size_t bytes, Kind kind, void* from) {
  const bool watched = SetWatching(false);
  const Fiber& fiber = *current;
  if (address - reinterpret_cast<uintptr_t>(fiber.stack) >= kStack)  // not its own variables
    memory.Check(address, bytes, kind, from,
                 {first_block_, blocks_, barrier_, static_cast<uint16_t>(fiber.thread), fiber.clock});
  SetWatching(watched);
}

std::vector<const void*>& Watched() {
  static auto& watched = *new std::vector<const void*>;
  return watched;
}

}  // namespace

Position ThreadIndex() { return TheDevice().current->index; }
Position BlockIndex() { return TheDevice().block_index; }
Extent BlockExtent() { return TheDevice().block; }
Extent GridExtent() { return TheDevice().grid; }
void* SharedMemory() { return TheDevice().shared; }
int Lane() { return static_cast<int>(TheDevice().current->thread % kWarp); }

void BlockBarrier(Site site) { TheDevice().Wait(State::kAtBlockBarrier, site); }

void WarpBarrier(uint32_t mask, Site site) { TheDevice().WaitForWarp(State::kAtWarpBarrier, mask, site); }

uint64_t Shuffle(uint32_t mask, uint64_t value, int source_lane, Site site) {
  Fiber& fiber = *TheDevice().current;
  fiber.value = value;
  fiber.source = source_lane;
  TheDevice().WaitForWarp(State::kAtShuffle, mask, site);
  return fiber.value;
}

void OnPlain(void* address, size_t bytes, bool writes, void* from) {
  TheDevice().OnAccess(reinterpret_cast<uintptr_t>(address), bytes, writes ? Kind::kWrite : Kind::kRead, from);
}

void OnAtomic(void* address, size_t bytes, void* from) {
  if (IsWatching()) TheDevice().OnAccess(reinterpret_cast<uintptr_t>(address), bytes, Kind::kAtomic, from);
}

void Launch(Extent grid, Extent block, size_t shared_bytes, Task task) {
  TheDevice().Launch(grid, block, shared_bytes, task);
}

void* AllocateTable(size_t bytes) {
  void* const table = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  TheDevice().memory.Add(table, bytes, Region::kTable, false);
  return table;
}

void Configure(uint64_t seed, bool check) {
  Device& device = TheDevice();
  const std::lock_guard<std::mutex> lock(device.mutex);
  device.random.seed(seed);
  device.check = check;
}

Scope::Scope() : lock_(TheDevice().mutex) {
  TheDevice().failure.clear();
  TheDevice().memory.Forget();
}

Scope::~Scope() {
  for (const void* data : Watched()) TheDevice().memory.Remove(data);
  Watched().clear();
}

void Scope::AddOperand(const void* data, size_t bytes) {
  if (bytes == 0) return;
  TheDevice().memory.Add(data, bytes, Region::kOperand, false);
  Watched().push_back(data);
}

void Scope::AddResult(void* data, size_t bytes) {
  if (bytes == 0) return;
  std::memset(data, 0xa5, bytes);
  TheDevice().memory.Add(data, bytes, Region::kResult, TheDevice().check);
  Watched().push_back(data);
}

std::string Scope::Findings() const { return TheDevice().failure + TheDevice().memory.Describe(); }

}  // namespace fhejax::emulator
