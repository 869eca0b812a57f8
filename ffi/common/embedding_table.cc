#include "common/embedding_table.h"

#include <cmath>

namespace fhejax {

EmbeddingTable MakeEmbeddingTable(int64_t slots) {
  EmbeddingTable table{slots, std::vector<uint32_t>(slots), std::vector<double>(slots), std::vector<double>(slots)};
  for (int64_t k = 0, reversed = 0; k < slots; ++k) {
    table.reversed[k] = static_cast<uint32_t>(reversed);
    for (int64_t bit = slots / 2; bit && ((reversed ^= bit) & bit) == 0; bit /= 2) {
    }  // reversed = brv(k + 1): the carry runs from the top bit down
  }
  const long double pi = std::acos(-1.0L);
  for (int64_t half = 1; half < slots; half *= 2)
    for (int64_t j = 0, power = 1; j < half; ++j, power = 5 * power % (8 * half)) {
      // An angle in [-pi/4, pi/4] and quarter turns: the last bit is right also where long double is only double.
      const int64_t turns = (power + half) / (2 * half), rest = power - turns * 2 * half;
      const long double angle = pi * static_cast<long double>(rest) / static_cast<long double>(4 * half);
      const auto c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
      const double rotated[] = {c, -s, -c, s};
      table.cosine[half + j] = rotated[turns % 4];
      table.sine[half + j] = rotated[(turns + 3) % 4];
    }
  return table;
}

}  // namespace fhejax
