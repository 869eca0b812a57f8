// Kernels and handlers without Python, to run under sanitizers: make sanitize. `checks fuzz 0 1000` makes calls that do not
// fit instead, of seeds 0 to 999: make fuzz.

#include <cstdlib>
#include <cstring>

#include "tests/calls.h"
#include "tests/numbers.h"

int main(int count, char** arguments) {
  if (count == 4 && !std::strcmp(arguments[1], "fuzz")) {
    const int64_t computed = fhejax::Fuzz(fhejax::LinkedHandlers(), std::strtoull(arguments[2], nullptr, 10),
                                          std::strtoull(arguments[3], nullptr, 10));
    std::printf("%lld computed\n", static_cast<long long>(computed));
    return 0;
  }
  fhejax::CheckKernels();
  fhejax::CheckHandlers();
}
