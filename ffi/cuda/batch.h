// How work is spread over blocks: rows of a limb, and batch axes that broadcast.
//
// Grids have one dimension, of tiles x batch entries x limbs, tiles fastest: blocks that run together share the tables of
// their limb, and no dimension of a grid is near its bound.
#pragma once

#include <array>
#include <optional>

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

// An operand's shape, and how many of its last axes are its own.
struct OperandShape {
  Dimensions shape;
  size_t own_axes;
};

// The batch of a result u64[*batch, <own axes>]; none where an operand's batch axes do not fit it.
template <int kOperands>
std::optional<Batch<kOperands>> BroadcastOf(OperandShape result, const std::array<OperandShape, kOperands>& operands) {
  const size_t axes = result.shape.size() - result.own_axes;
  Batch<kOperands> batch;
  std::array<uint64_t, kOperands> stride;
  stride.fill(1);
  uint64_t count = 1;
  for (const OperandShape& operand : operands)
    if (operand.shape.size() != axes + operand.own_axes) return std::nullopt;
  for (size_t axis = axes; axis-- > 0;) {
    const auto size = static_cast<uint64_t>(result.shape[axis]);
    uint32_t strides[kOperands];
    bool joins = batch.axes > 0;  // with the axis behind it
    for (int k = 0; k < kOperands; ++k) {
      const auto own = static_cast<uint64_t>(operands[k].shape[axis]);
      if (own != 1 && own != size) return std::nullopt;
      strides[k] = own == 1 ? 0 : static_cast<uint32_t>(stride[k]);
      stride[k] *= own;
      joins = joins && strides[k] == batch.strides[batch.axes - 1][k] * batch.sizes[batch.axes - 1];
    }
    count *= size;
    if (count > UINT32_MAX) return std::nullopt;
    if (size == 1) continue;
    if (joins) {
      batch.sizes[batch.axes - 1] *= static_cast<uint32_t>(size);
      continue;
    }
    if (batch.axes == kBatchAxes) return std::nullopt;
    batch.sizes[batch.axes] = static_cast<uint32_t>(size);
    for (int k = 0; k < kOperands; ++k) batch.strides[batch.axes][k] = strides[k];
    ++batch.axes;
  }
  batch.count = static_cast<uint32_t>(count);
  return batch;
}

}  // namespace fhejax
