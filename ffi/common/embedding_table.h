// Constants of the canonical embedding's FFT.
#pragma once

#include <cstdint>
#include <vector>

namespace fhejax {

struct EmbeddingTable {
  int64_t slots;
  std::vector<uint32_t> reversed;    // brv(k), k < slots
  std::vector<double> cosine, sine;  // at half + j: exp(i pi 5^j / 4 half), for half = 1, 2, 4, ... < slots, j < half
};

EmbeddingTable MakeEmbeddingTable(int64_t slots);

}  // namespace fhejax
