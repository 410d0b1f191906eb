#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "passel/kernels/lltm.h"

namespace passel::kernels {

/// Units of the cell that one block of the forward weights serves: their input,
/// output and candidate columns stand side by side, so that a tile ends with all
/// three gates of its units in registers.
inline constexpr std::int64_t kUnitBlock = 16;
inline constexpr std::int64_t kPanelColumns = 3 * kUnitBlock;
/// Split work is cut at multiples of so many rows: whole tiles on every instruction set.
inline constexpr std::int64_t kRowGrain = 8;
/// Rows (of T * B) that one pass over a gradient of weights adds, at most: the
/// packed right operand of a pass should stay in the second level cache.
inline constexpr std::int64_t kChunkRows = 256;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Parts of `packed`, as offsets in elements. Padding columns are zero.
///
///   blocks    [S / 16][1 + S + I][48]: the bias, then W transposed; for forward
///   h_panels  [S / 48][3S][48]: W's columns of h, for dL/dh
///   x_panels  [I / 48][3S][48]: W's columns of x, for dL/dx
class PackedLayout {
 public:
  explicit PackedLayout(const LltmShape& shape) noexcept
      : block_rows_(1 + shape.state + shape.input),
        gate_rows_(3 * shape.state),
        blocks_(divide_up(shape.state, kUnitBlock)),
        h_panels_(divide_up(shape.state, kPanelColumns)),
        x_panels_(divide_up(shape.input, kPanelColumns)) {}

  std::int64_t block_stride() const { return block_rows_ * kPanelColumns; }
  std::int64_t panel_stride() const { return gate_rows_ * kPanelColumns; }
  std::int64_t h_panels() const { return blocks_ * block_stride(); }
  std::int64_t x_panels() const { return h_panels() + h_panels_ * panel_stride(); }
  std::int64_t size() const { return x_panels() + x_panels_ * panel_stride(); }

 private:
  std::int64_t block_rows_;
  std::int64_t gate_rows_;
  std::int64_t blocks_;
  std::int64_t h_panels_;
  std::int64_t x_panels_;
};

/// Parts of the backward pass's workspace, as offsets in elements, and the
/// segments of steps it works in, last one first.
class BackwardLayout {
 public:
  BackwardLayout(const LltmShape& shape, const LltmPlan& plan) noexcept
      : steps_(plan.keep_every > 0 ? std::min(plan.keep_every, shape.steps)
                                   : std::max(kChunkRows / std::max(shape.batch, std::int64_t{1}),
                                              std::int64_t{1})),
        state_(shape.batch * shape.state),
        cells_(plan.keep_every > 0 ? steps_ * state_ : 0),
        inputs_(plan.keep_every > 0 ? shape.batch * (shape.state + shape.input) : 0),
        panels_(divide_up(shape.state + shape.input, kPanelColumns)) {
    const std::int64_t rows = std::min(steps_, shape.steps) * shape.batch;
    grad_h_ = 3 * std::min(steps_, shape.steps) * state_;
    chunk_rows_ = divide_up(rows, std::max(divide_up(rows, kChunkRows), std::int64_t{1}));
  }

  /// Steps of a segment.
  std::int64_t steps() const { return steps_; }
  std::int64_t chunk_rows() const { return chunk_rows_; }

  /// dL/d(gates) of a segment, its last step first.
  std::int64_t grad_gates() const { return 0; }
  std::int64_t grad_h() const { return grad_h_; }
  std::int64_t grad_c() const { return grad_h() + state_; }
  /// c after each step of a segment, where it was not kept.
  std::int64_t cells() const { return grad_c() + state_; }
  /// h and x of one step in the type of sums, where they are computed again.
  std::int64_t inputs() const { return cells() + cells_; }
  std::int64_t panels() const { return inputs() + inputs_; }
  std::int64_t size() const { return panels() + panels_ * chunk_rows_ * kPanelColumns; }

 private:
  std::int64_t steps_;
  std::int64_t state_;
  std::int64_t cells_;
  std::int64_t inputs_;
  std::int64_t panels_;
  std::int64_t grad_h_ = 0;
  std::int64_t chunk_rows_ = 0;
};

/// c before step t: kept after every k-th step and the last.
template <typename T>
const T* cells_before(const LltmShape& shape, const LltmPlan& plan, const T* c0, const T* cells,
                      std::int64_t t) {
  const std::int64_t every = std::max(plan.keep_every, std::int64_t{1});
  return t < every ? c0 : cells + (t / every - 1) * shape.batch * shape.state;
}

template <typename T>
const T* hidden_before(const LltmShape& shape, const T* h0, const T* hidden, std::int64_t t) {
  return t == 0 ? h0 : hidden + (t - 1) * shape.batch * shape.state;
}

}  // namespace passel::kernels
