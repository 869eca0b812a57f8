// How many 52-bit multiply-adds on eight words a core executes: what bounds transforms modulo primes below 2^50.

#include <stdint.h>

// Accumulators are independent and more than latency times ports, so throughput alone decides.
#define CHAIN(i) "vpmadd52luq %%zmm14, %%zmm15, %%zmm" #i "\n\t"

int has_multiply_add(void) { return __builtin_cpu_supports("avx512ifma") != 0; }

// Executes 12 multiply-adds `rounds` times; rounds > 0.
void multiply_add(uint64_t rounds) {
  __asm__ volatile(
      "1:\n\t" CHAIN(0) CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7) CHAIN(8) CHAIN(9) CHAIN(10)
          CHAIN(11) "dec %0\n\tjnz 1b\n\tvzeroupper"
      : "+r"(rounds)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
        "xmm12", "xmm13", "xmm14", "xmm15");
}
