// How work is spread over blocks: rows of a limb, and batch axes that broadcast.
//
// Grids have one dimension, of tiles x batch entries x limbs, tiles fastest: blocks that run together share the tables of
// their limb, and no dimension of a grid is near its bound.
#pragma once

#include <array>

#include "cuda/call.h"

namespace fhejax {

struct Tile {
  uint32_t index, entry, limb;
};

struct Grid {
  uint32_t tiles, entries, limbs;

  uint64_t blocks() const { return uint64_t{tiles} * entries * limbs; }

  __device__ __forceinline__ Tile At(uint32_t block) const {
    const uint32_t row = block / tiles;
    return {block - row * tiles, row % entries, row / entries};
  }
};

constexpr int kBatchAxes = 8;

// Where each operand has the batch's entries. Axes that broadcast alike in all operands count as one.
template <int kOperands>
struct Batch {
  uint32_t count = 1;
  int axes = 0;
  uint32_t sizes[kBatchAxes] = {};               // the last axis first
  uint32_t strides[kBatchAxes][kOperands] = {};  // in entries; 0 where an operand broadcasts

  __device__ __forceinline__ uint32_t Entry(int operand, uint32_t entry) const {
    uint32_t found = 0;
#pragma unroll  // with constant indices a kernel's parameters stay where they are
    for (int axis = 0; axis < kBatchAxes; ++axis) {
      if (axis >= axes) break;
      found += entry % sizes[axis] * strides[axis][operand];
      entry /= sizes[axis];
    }
    return found;
  }
};

// The batch of these axes, and of operands' axes that broadcast to it.
template <int kOperands>
Batch<kOperands> BatchOf(Call& call, Shape axes, const std::array<Shape, kOperands>& operands) {
  Batch<kOperands> batch;
  std::array<uint64_t, kOperands> stride;
  stride.fill(1);
  uint64_t count = 1;
  for (size_t axis = axes.size(); axis-- > 0;) {
    const auto size = static_cast<uint64_t>(axes[axis]);
    uint32_t strides[kOperands];
    bool joins = batch.axes > 0;  // with the axis behind it
    for (int k = 0; k < kOperands; ++k) {
      const auto own = static_cast<uint64_t>(operands[k][axis]);
      strides[k] = own == 1 ? 0 : static_cast<uint32_t>(stride[k]);
      stride[k] *= own;
      joins = joins && strides[k] == batch.strides[batch.axes - 1][k] * batch.sizes[batch.axes - 1];
    }
    count *= size;
    if (size == 1) continue;
    if (joins) {
      batch.sizes[batch.axes - 1] *= static_cast<uint32_t>(size);
      continue;
    }
    if (batch.axes == kBatchAxes) {
      call.RefuseArguments("more than eight batch axes that broadcast each in its own way");
      return batch;
    }
    batch.sizes[batch.axes] = static_cast<uint32_t>(size);
    for (int k = 0; k < kOperands; ++k) batch.strides[batch.axes][k] = strides[k];
    ++batch.axes;
  }
  if (count > UINT32_MAX) call.RefuseArguments("the batch is too large for one launch");
  batch.count = static_cast<uint32_t>(count);
  return batch;
}

}  // namespace fhejax
