#pragma once

#include <cstddef>
#include <cstdint>

#include "passel/kernels/lltm.h"

namespace passel::kernels {

/// Units of the cell that one block of the forward weights serves: their input,
/// output and candidate columns stand side by side, so that a tile ends with all
/// three gates of its units in registers.
inline constexpr std::int64_t kUnitBlock = 16;
inline constexpr std::int64_t kPanelColumns = 3 * kUnitBlock;
/// Rows of a packed left operand.
inline constexpr std::int64_t kRowGroup = 8;

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

/// Parts of the backward pass's workspace, as offsets in elements.
class BackwardLayout {
 public:
  /// Rows (of T * B) that one pass over grad_weight adds: the packed right
  /// operand of a pass should stay in the second level cache.
  static constexpr std::int64_t kChunkRows = 256;

  explicit BackwardLayout(const LltmShape& shape) noexcept
      : rows_(shape.steps * shape.batch),
        state_(shape.batch * shape.state),
        gate_rows_(3 * shape.state),
        panels_(divide_up(shape.state + shape.input, kPanelColumns)) {}

  std::int64_t grad_h() const { return rows_ * gate_rows_; }
  std::int64_t grad_c() const { return grad_h() + state_; }
  std::int64_t row_group() const { return grad_c() + state_; }
  std::int64_t panels() const { return row_group() + kChunkRows * kRowGroup; }
  std::int64_t size() const { return panels() + panels_ * kChunkRows * kPanelColumns; }

 private:
  std::int64_t rows_;
  std::int64_t state_;
  std::int64_t gate_rows_;
  std::int64_t panels_;
};

}  // namespace passel::kernels
