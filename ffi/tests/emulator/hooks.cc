#include "emulator/hooks.h"

#include <cstdint>

namespace fhejax::emulator {
namespace {

thread_local bool watching __attribute__((tls_model("initial-exec"))) = false;

}  // namespace

bool SetWatching(bool now) {
  const bool before = watching;
  watching = now;
  return before;
}

bool IsWatching() { return watching; }

}  // namespace fhejax::emulator

#define FHEJAX_ANNOUNCE(address, bytes, writes) \
  if (fhejax::emulator::IsWatching()) fhejax::emulator::OnPlain(address, bytes, writes, __builtin_return_address(0))
#define FHEJAX_HOOKS(n)                                                           \
  void __tsan_read##n(void* p) { FHEJAX_ANNOUNCE(p, n, false); }                  \
  void __tsan_write##n(void* p) { FHEJAX_ANNOUNCE(p, n, true); }                  \
  void __tsan_unaligned_read##n(void* p) { FHEJAX_ANNOUNCE(p, n, false); }        \
  void __tsan_unaligned_write##n(void* p) { FHEJAX_ANNOUNCE(p, n, true); }        \
  void __tsan_volatile_read##n(void* p) { FHEJAX_ANNOUNCE(p, n, false); }         \
  void __tsan_volatile_write##n(void* p) { FHEJAX_ANNOUNCE(p, n, true); }

extern "C" {

FHEJAX_HOOKS(1)
FHEJAX_HOOKS(2)
FHEJAX_HOOKS(4)
FHEJAX_HOOKS(8)
FHEJAX_HOOKS(16)

void __tsan_read_range(void* p, size_t bytes) { FHEJAX_ANNOUNCE(p, bytes, false); }
void __tsan_write_range(void* p, size_t bytes) { FHEJAX_ANNOUNCE(p, bytes, true); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Host code compiled with kernels: reference counts, and statics that are made at the first use.
int8_t __tsan_atomic8_load(const volatile int8_t* p, int order) { return __atomic_load_n(p, order); }
int32_t __tsan_atomic32_load(const volatile int32_t* p, int order) { return __atomic_load_n(p, order); }
int32_t __tsan_atomic32_fetch_add(volatile int32_t* p, int32_t value, int order) {
  return __atomic_fetch_add(p, value, order);
}
}
