#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_pack.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>

#include "copy_as.h"
#include "lltm_layout.h"
#include "panels-inl.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

template <typename From, typename T>
HWY_INLINE void pack_panels(const LltmShape& shape, const From* weight, Panels<T> h, Panels<T> x) {
  for (std::int64_t row = 0; row < 3 * shape.state; ++row) {
    const From* from = weight + row * (shape.state + shape.input);
    copy_to_row(from, shape.state, h.from_row(row), 0);
    copy_to_row(from + shape.state, shape.input, x.from_row(row), 0);
    clear_row_rest(h.from_row(row), shape.state);
    clear_row_rest(x.from_row(row), shape.input);
  }
}

/// Fills `packed` (PackedLayout) from one reading of the live weights; the
/// transposed blocks are made from the copy, so both show the same snapshot.
template <typename From, typename T>
HWY_INLINE void pack(const LltmShape& shape, const From* weight, const From* bias, T* packed) {
  const PackedLayout layout(shape, kUnits<T>);
  const Panels<T> h{packed + layout.h_panels(), layout.panel_stride()};
  const Panels<T> x{packed + layout.x_panels(), layout.panel_stride()};
  pack_panels(shape, weight, h, x);
  for (std::int64_t unit = 0; unit < shape.state; unit += kUnits<T>) {
    const std::int64_t units = std::min(kUnits<T>, shape.state - unit);
    T* block = packed + unit / kUnits<T> * layout.block_stride();
    for (std::int64_t gate = 0; gate < 3; ++gate) {
      const std::int64_t row = gate * shape.state + unit;
      T* columns = block + gate * kUnits<T>;
      copy_as(bias + row, units, columns);
      std::fill(columns + units, columns + kUnits<T>, T{});
      transpose_rows<kUnits<T>>(h.from_row(row), shape.state, units, columns + kPanelColumns<T>);
      transpose_rows<kUnits<T>>(x.from_row(row), shape.input, units,
                                columns + (1 + shape.state) * kPanelColumns<T>);
    }
  }
  // Whoever compares or saves the array finds no values of before in it.
  std::fill(packed + layout.size(), packed + PackedLayout(shape, kMostUnits).size(), T{});
}

void pack_float(const LltmShape& s, const float* weight, const float* bias, float* packed) {
  pack(s, weight, bias, packed);
}
void pack_double(const LltmShape& s, const double* weight, const double* bias, double* packed) {
  pack(s, weight, bias, packed);
}
void pack_bfloat16(const LltmShape& s, const Bfloat16* weight, const Bfloat16* bias,
                   float* packed) {
  pack(s, weight, bias, packed);
}
void pack_float16(const LltmShape& s, const Float16* weight, const Float16* bias, float* packed) {
  pack(s, weight, bias, packed);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(pack_float);
HWY_EXPORT(pack_double);
HWY_EXPORT(pack_bfloat16);
HWY_EXPORT(pack_float16);
}  // namespace

std::int64_t lltm_cells_kept(const LltmShape& shape, const LltmPlan& plan) noexcept {
  return plan.keep_every > 0 ? divide_up(shape.steps, plan.keep_every) : shape.steps;
}

std::size_t lltm_packed_size(const LltmShape& shape) noexcept {
  return static_cast<std::size_t>(PackedLayout(shape, kMostUnits).size());
}

std::size_t lltm_forward_workspace(const LltmShape& shape) noexcept {
  return static_cast<std::size_t>(shape.batch * (2 * shape.state + shape.input));
}

std::size_t lltm_backward_workspace(const LltmShape& shape, const LltmPlan& plan) noexcept {
  return static_cast<std::size_t>(BackwardLayout(shape, plan).size());
}

void lltm_pack(const LltmShape& shape, const float* weight, const float* bias,
               float* packed) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(pack_float)(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const double* weight, const double* bias,
               double* packed) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(pack_double)(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const Bfloat16* weight, const Bfloat16* bias,
               float* packed) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(pack_bfloat16)(shape, weight, bias, packed);
}

void lltm_pack(const LltmShape& shape, const Float16* weight, const Float16* bias,
               float* packed) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(pack_float16)(shape, weight, bias, packed);
}

}  // namespace passel::kernels
#endif
