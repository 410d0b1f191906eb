#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_backward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>

#include "gemm_tile-inl.h"
#include "lltm_layout.h"
#include "lltm_pack.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// One row of one step in the backward pass.
template <typename T>
struct Row {
  const T* gates;
  const T* cell;
  const T* grad_hidden;  // or nullptr
  const T* grad_h;       // from the step after this one
  T* grad_c;             // in: from the step after; out: for the step before
  T* grad_gates;
};

/// dL/d(pre-activation gates) of the units at `u`, by derivatives in terms of the
/// activations: s' = s (1 - s), tanh' = 1 - tanh^2, elu' = 1 or g + 1.
template <class D, typename T>
HWY_INLINE void backward_units(D d, const Row<T>& row, std::int64_t state, std::int64_t u) {
  const auto one = hn::Set(d, T{1});
  const auto input = hn::LoadU(d, row.gates + u);
  const auto output = hn::LoadU(d, row.gates + state + u);
  const auto candidate = hn::LoadU(d, row.gates + 2 * state + u);
  const auto squashed = tanh(d, hn::LoadU(d, row.cell + u));
  auto grad_h = hn::LoadU(d, row.grad_h + u);
  if (row.grad_hidden != nullptr) grad_h = hn::Add(grad_h, hn::LoadU(d, row.grad_hidden + u));

  const auto slope = mul_add(d, hn::Neg(squashed), squashed, one);
  const auto grad_c = mul_add(d, hn::Mul(grad_h, output), slope, hn::LoadU(d, row.grad_c + u));
  const auto elu_slope =
      hn::IfThenElse(hn::Gt(candidate, hn::Zero(d)), one, hn::Add(candidate, one));
  const auto grad_input = hn::Mul(hn::Mul(grad_c, candidate), hn::Mul(input, hn::Sub(one, input)));
  const auto grad_output =
      hn::Mul(hn::Mul(grad_h, squashed), hn::Mul(output, hn::Sub(one, output)));
  hn::StoreU(grad_c, d, row.grad_c + u);
  hn::StoreU(grad_input, d, row.grad_gates + u);
  hn::StoreU(grad_output, d, row.grad_gates + state + u);
  hn::StoreU(hn::Mul(hn::Mul(grad_c, input), elu_slope), d, row.grad_gates + 2 * state + u);
}

template <typename T>
HWY_INLINE void backward_row(const Row<T>& row, std::int64_t state) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t u = 0;
  for (; u + lanes <= state; u += lanes) backward_units(d, row, state, u);
  for (; u < state; ++u) backward_units(d1, row, state, u);
}

template <typename T>
void copy_or_clear(const T* from, std::int64_t count, T* to) {
  if (from != nullptr) {
    std::copy_n(from, count, to);
  } else {
    std::fill_n(to, count, T{});
  }
}

/// Fills grad_gates for all steps, last first; leaves dL/dh0 and dL/dc0 in the
/// workspace.
template <typename T>
HWY_INLINE void backward_steps(const LltmShape& s, const LltmBackward<T>& a) {
  const hn::CappedTag<T, kUnitBlock> d;
  const PackedLayout packed(s);
  const BackwardLayout layout(s);
  T* grad_h = a.workspace + layout.grad_h();
  T* grad_c = a.workspace + layout.grad_c();
  copy_or_clear(a.grad_h_last, s.batch * s.state, grad_h);
  copy_or_clear(a.grad_c_last, s.batch * s.state, grad_c);
  const Panels<T> weights{a.packed + packed.h_panels(), packed.panel_stride()};
  for (std::int64_t t = s.steps - 1; t >= 0; --t) {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      const std::int64_t at = (t * s.batch + b) * s.state;
      backward_row(Row<T>{.gates = a.gates + 3 * at,
                          .cell = a.cells + at,
                          .grad_hidden = a.grad_hidden == nullptr ? nullptr : a.grad_hidden + at,
                          .grad_h = grad_h + b * s.state,
                          .grad_c = grad_c + b * s.state,
                          .grad_gates = a.workspace + 3 * at},
                   s.state);
    }
    if (t == 0 && a.grad_h0 == nullptr) break;
    const RowMajor<T> grad_gates{a.workspace + t * s.batch * 3 * s.state, 3 * s.state};
    product(d, grad_gates, s.batch, 3 * s.state, weights, s.state,
            Output<T>{grad_h, s.state, false});
  }
}

/// Packs rows first .. first + count of [h before the step, x] as panels.
template <typename T>
void pack_inputs(const LltmShape& s, const LltmBackward<T>& a, std::int64_t first,
                 std::int64_t count, T* panels) {
  constexpr std::int64_t kStride = BackwardLayout::kChunkRows * kPanelColumns;
  for (std::int64_t i = 0; i < count; ++i, panels += kPanelColumns) {
    const std::int64_t row = first + i;
    const T* h = row < s.batch ? a.h0 + row * s.state : a.hidden + (row - s.batch) * s.state;
    copy_to_panels(h, s.state, panels, kStride, 0);
    copy_to_panels(a.x + row * s.input, s.input, panels, kStride, s.state);
    clear_panel_rest(panels, kStride, s.state + s.input);
  }
}

/// Packs columns first .. first + columns of `count` rows as [count][kRowGroup].
template <typename T>
void pack_columns(const T* from, std::int64_t stride, std::int64_t columns, std::int64_t count,
                  T* group) {
  if (columns == kRowGroup) {
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < kRowGroup; ++j) group[i * kRowGroup + j] = from[i * stride + j];
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    T* rest = std::copy_n(from + i * stride, columns, group + i * kRowGroup);
    std::fill(rest, group + (i + 1) * kRowGroup, T{});
  }
}

/// grad_weight = grad_gates' [h before the step, x], in chunks of rows: a chunk
/// continues the sums of the one before.
template <typename T>
HWY_INLINE void weight_gradient(const LltmShape& s, const LltmBackward<T>& a) {
  const hn::CappedTag<T, kUnitBlock> d;
  const BackwardLayout layout(s);
  const std::int64_t rows = s.steps * s.batch;
  const std::int64_t columns = s.state + s.input;
  T* group = a.workspace + layout.row_group();
  T* panels = a.workspace + layout.panels();
  if (rows == 0) std::fill_n(a.grad_weight, 3 * s.state * columns, T{});
  for (std::int64_t first = 0; first < rows; first += BackwardLayout::kChunkRows) {
    const std::int64_t depth = std::min(BackwardLayout::kChunkRows, rows - first);
    pack_inputs(s, a, first, depth, panels);
    for (std::int64_t gate = 0; gate < 3 * s.state; gate += kRowGroup) {
      const std::int64_t gates = std::min(kRowGroup, 3 * s.state - gate);
      pack_columns(a.workspace + first * 3 * s.state + gate, 3 * s.state, gates, depth, group);
      product(d, RowGroup<T>{group}, gates, depth,
              Panels<T>{panels, BackwardLayout::kChunkRows * kPanelColumns}, columns,
              Output<T>{a.grad_weight + gate * columns, columns, first > 0});
    }
  }
}

template <typename T>
void bias_gradient(const LltmShape& s, const LltmBackward<T>& a) {
  std::fill_n(a.grad_bias, 3 * s.state, T{});
  const T* row = a.workspace;
  for (std::int64_t i = 0; i < s.steps * s.batch; ++i, row += 3 * s.state) {
    for (std::int64_t j = 0; j < 3 * s.state; ++j) a.grad_bias[j] += row[j];
  }
}

template <typename T>
HWY_INLINE void backward(const LltmShape& s, const LltmBackward<T>& a) {
  const BackwardLayout layout(s);
  backward_steps(s, a);
  const std::int64_t state = s.batch * s.state;
  if (a.grad_h0 != nullptr) std::copy_n(a.workspace + layout.grad_h(), state, a.grad_h0);
  if (a.grad_c0 != nullptr) std::copy_n(a.workspace + layout.grad_c(), state, a.grad_c0);
  if (a.grad_bias != nullptr) bias_gradient(s, a);
  if (a.grad_weight != nullptr) weight_gradient(s, a);
  if (a.grad_x != nullptr) {
    const PackedLayout packed(s);
    product(hn::CappedTag<T, kUnitBlock>(), RowMajor<T>{a.workspace, 3 * s.state},
            s.steps * s.batch, 3 * s.state,
            Panels<T>{a.packed + packed.x_panels(), packed.panel_stride()}, s.input,
            Output<T>{a.grad_x, s.input, false});
  }
}

void backward_float(const LltmShape& s, const LltmBackward<float>& a) {
  backward(s, a);
}
void backward_double(const LltmShape& s, const LltmBackward<double>& a) {
  backward(s, a);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
}  // namespace

void lltm_backward(const LltmShape& shape, const LltmBackward<float>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_float)(shape, arrays);
}

void lltm_backward(const LltmShape& shape, const LltmBackward<double>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_double)(shape, arrays);
}

}  // namespace passel::kernels
#endif
