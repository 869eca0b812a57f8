// Calls that fit, of every handler.
#pragma once

#include "tests/runtime.h"

namespace fhejax {

using Calls = std::vector<Call>;

Handlers LinkedHandlers();  // those that the program is linked with

Calls AllCalls();
Calls SmallCalls();  // of few values

// `count` calls that are drawn from `first` on and changed at random, each of which is to be refused or to compute. How many
// did compute; ends the process where a call writes outside of its results.
int64_t Fuzz(const Handlers& handlers, uint64_t first, uint64_t count);

}  // namespace fhejax
