#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "passel/kernels/lltm.h"

namespace passel::kernels {

/// Elements of the widest vector there is. `units` below are those of a vector on the
/// instruction set in use: what a tile reads of a row of weights then is the whole of its
/// cache lines. Arrays have room for any, as 3 units divide 3 kMostUnits.
inline constexpr std::int64_t kMostUnits = 16;
/// Split work is cut at multiples of so many rows: whole tiles on every instruction set.
inline constexpr std::int64_t kRowGrain = 8;
/// Rows (of T * B) that one pass over a gradient of weights adds, at most: the
/// packed right operand of a pass should stay in the second level cache.
inline constexpr std::int64_t kChunkRows = 256;

/// a / b, rounded up, for any a >= 0 and b > 0.
constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a / b + (a % b == 0 ? 0 : 1);
}

/// Parts of `packed`, as offsets in elements. Padding columns are zero.
///
///   blocks    [S / units][1 + S + I][3 units]: the bias, then W transposed; for forward.
///             The input, output and candidate columns of a block's units stand side by
///             side, so that a tile ends with all three gates of its units in registers
///   h_panels  [S / (3 units)][3S][3 units]: W's columns of h, for dL/dh
///   x_panels  [I / (3 units)][3S][3 units]: W's columns of x, for dL/dx
class PackedLayout {
 public:
  PackedLayout(const LltmShape& shape, std::int64_t units) noexcept
      : columns_(3 * units),
        block_rows_(1 + shape.state + shape.input),
        gate_rows_(3 * shape.state),
        blocks_(divide_up(shape.state, units)),
        h_panels_(divide_up(shape.state, columns_)),
        x_panels_(divide_up(shape.input, columns_)) {}

  std::int64_t block_stride() const { return block_rows_ * columns_; }
  std::int64_t panel_stride() const { return gate_rows_ * columns_; }
  std::int64_t h_panels() const { return blocks_ * block_stride(); }
  std::int64_t x_panels() const { return h_panels() + h_panels_ * panel_stride(); }
  std::int64_t size() const { return x_panels() + x_panels_ * panel_stride(); }

 private:
  std::int64_t columns_;
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
        squashed_(plan.keep_every > 0 ? steps_ * state_ : 0),
        cells_(plan.keep_every > 0 ? state_ : 0),
        inputs_(plan.keep_every > 0 ? shape.batch * (shape.state + shape.input) : 0),
        panel_columns_(divide_up(shape.state + shape.input, 3 * kMostUnits) * 3 * kMostUnits) {
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
  /// tanh(c) after each step of a segment and c of one step, where they are computed again.
  std::int64_t squashed() const { return grad_c() + state_; }
  std::int64_t cells() const { return squashed() + squashed_; }
  /// h and x of one step in the type of sums, where they are computed again.
  std::int64_t inputs() const { return cells() + cells_; }
  std::int64_t panels() const { return inputs() + inputs_; }
  std::int64_t size() const { return panels() + panel_columns_ * chunk_rows_; }

 private:
  std::int64_t steps_;
  std::int64_t state_;
  std::int64_t squashed_;
  std::int64_t cells_;
  std::int64_t inputs_;
  std::int64_t panel_columns_;
  std::int64_t grad_h_ = 0;
  std::int64_t chunk_rows_ = 0;
};

template <typename T>
const T* hidden_before(const LltmShape& shape, const T* h0, const T* hidden, std::int64_t t) {
  return t == 0 ? h0 : hidden + (t - 1) * shape.batch * shape.state;
}

}  // namespace passel::kernels
