// What tests call by ctypes.

#include "cuda/handlers.h"
#include "emulator/emulator.h"

extern "C" {

// A line for each handler: its symbol and its name.
const char* FhejaxEmulatedHandlers() {
#define FHEJAX_LINE(Name, target) "Fhejax" #Name " " target "\n"
  return FHEJAX_HANDLERS(FHEJAX_LINE);
#undef FHEJAX_LINE
}

void FhejaxConfigureEmulator(uint64_t seed, int check) { fhejax::emulator::Configure(seed, check != 0); }
}
