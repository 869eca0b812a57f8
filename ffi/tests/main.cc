// Kernels and handlers without Python, to run under sanitizers: make sanitize.

#include "tests/numbers.h"

int main() {
  fhejax::CheckKernels();
  fhejax::CheckHandlers();
}
