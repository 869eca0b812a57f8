// Memory accesses that the compiler announces (-fsanitize=thread, linked without its library).
#pragma once

#include <cstddef>

namespace fhejax::emulator {

// Whether this thread runs a kernel whose accesses are checked; returns what was so before.
bool SetWatching(bool watching);
bool IsWatching();

void OnPlain(void* address, size_t bytes, bool writes, void* from);

}  // namespace fhejax::emulator
