#include "lltm_pack.h"

namespace passel::kernels {
namespace {

template <typename From, typename T>
void pack_panels(const LltmShape& shape, const PackedLayout& layout, const From* weight,
                 T* packed) {
  const std::int64_t stride = layout.panel_stride();
  for (std::int64_t row = 0; row < 3 * shape.state; ++row) {
    T* h = packed + layout.h_panels() + row * kPanelColumns;
    T* x = packed + layout.x_panels() + row * kPanelColumns;
    const From* from = weight + row * (shape.state + shape.input);
    copy_to_panels(from, shape.state, h, stride, 0);
    copy_to_panels(from + shape.state, shape.input, x, stride, 0);
    clear_panel_rest(h, stride, shape.state);
    clear_panel_rest(x, stride, shape.input);
  }
}

/// block[k][u] = panels' row u, column k, for the columns of h or of x.
template <typename T>
void transpose_panels(const T* panels, std::int64_t panel_stride, std::int64_t columns,
                      std::int64_t first_row, std::int64_t units, T* block) {
  for (std::int64_t k = 0; k < columns; ++k) {
    const T* from =
        panels + k / kPanelColumns * panel_stride + first_row * kPanelColumns + k % kPanelColumns;
    T* to = block + k * kPanelColumns;
    for (std::int64_t u = 0; u < units; ++u) to[u] = from[u * kPanelColumns];
    std::fill(to + units, to + kUnitBlock, T{});
  }
}

/// Fills `packed` (PackedLayout) from one reading of the live weights; the
/// transposed blocks are made from the copy, so both show the same snapshot.
template <typename From, typename T>
void pack(const LltmShape& shape, const From* weight, const From* bias, T* packed) {
  const PackedLayout layout(shape);
  pack_panels(shape, layout, weight, packed);
  for (std::int64_t unit = 0; unit < shape.state; unit += kUnitBlock) {
    const std::int64_t units = std::min(kUnitBlock, shape.state - unit);
    T* block = packed + unit / kUnitBlock * layout.block_stride();
    for (std::int64_t gate = 0; gate < 3; ++gate) {
      const std::int64_t row = gate * shape.state + unit;
      T* columns = block + gate * kUnitBlock;
      copy_as(bias + row, units, columns);
      std::fill(columns + units, columns + kUnitBlock, T{});
      transpose_panels(packed + layout.h_panels(), layout.panel_stride(), shape.state, row, units,
                       columns + kPanelColumns);
      transpose_panels(packed + layout.x_panels(), layout.panel_stride(), shape.input, row, units,
                       columns + (1 + shape.state) * kPanelColumns);
    }
  }
}

}  // namespace

std::int64_t lltm_cells_kept(const LltmShape& shape, const LltmPlan& plan) noexcept {
  return plan.keep_every > 0 ? divide_up(shape.steps, plan.keep_every) : shape.steps;
}

std::size_t lltm_packed_size(const LltmShape& shape) noexcept {
  return static_cast<std::size_t>(PackedLayout(shape).size());
}

std::size_t lltm_forward_workspace(const LltmShape& shape) noexcept {
  return static_cast<std::size_t>(shape.batch * (2 * shape.state + shape.input));
}

std::size_t lltm_backward_workspace(const LltmShape& shape, const LltmPlan& plan) noexcept {
  return static_cast<std::size_t>(BackwardLayout(shape, plan).size());
}

void lltm_pack(const LltmShape& shape, const float* weight, const float* bias,
               float* packed) noexcept {
  pack(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const double* weight, const double* bias,
               double* packed) noexcept {
  pack(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const Bfloat16* weight, const Bfloat16* bias,
               float* packed) noexcept {
  pack(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const Float16* weight, const Float16* bias,
               float* packed) noexcept {
  pack(shape, weight, bias, packed);
}

}  // namespace passel::kernels
