#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_backward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "copy_as.h"
#include "gemm_tile-inl.h"
#include "lltm_layout.h"
#include "lltm_parts.h"
#include "lltm_step-inl.h"
#include "panels-inl.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"
#include "vector_math-inl.h"
#include "weight_gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// One vector of elements, converted where they are of a shorter type.
template <class D, typename From>
HWY_INLINE hn::Vec<D> load_as(D d, const From* p) {
  if constexpr (std::is_same_v<From, hn::TFromD<D>>) {
    return hn::LoadU(d, p);
  } else {
    HWY_ALIGN hn::TFromD<D> lanes[kLanes<D>];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = to_float(p[i]);
    return hn::Load(d, lanes);
  }
}

/// One row of one step in the backward pass.
template <typename Hidden, typename T>
struct Row {
  const T* gates;
  const T* squashed;          // tanh(c) after the step
  const Hidden* grad_hidden;  // or nullptr
  const T* grad_h;            // from the step after this one
  T* grad_c;                  // in: from the step after; out: for the step before
  T* grad_gates;
};

/// dL/d(pre-activation gates) of the units at `u`, by derivatives in terms of the
/// activations: s' = s (1 - s), tanh' = 1 - tanh^2, elu' = 1 or g + 1.
template <class D, typename Hidden, typename T>
HWY_INLINE void backward_units(D d, const Row<Hidden, T>& row, std::int64_t state, std::int64_t u) {
  const auto one = hn::Set(d, T{1});
  const auto input = hn::LoadU(d, row.gates + u);
  const auto output = hn::LoadU(d, row.gates + state + u);
  const auto candidate = hn::LoadU(d, row.gates + 2 * state + u);
  const auto squashed = hn::LoadU(d, row.squashed + u);
  auto grad_h = hn::LoadU(d, row.grad_h + u);
  if (row.grad_hidden != nullptr) {
    grad_h = hn::Add(grad_h, load_as(d, row.grad_hidden + u));
  }

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

template <typename Hidden, typename T>
HWY_INLINE void backward_row(const Row<Hidden, T>& row, std::int64_t state) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t u = 0;
  for (; u + lanes <= state; u += lanes) backward_units(d, row, state, u);
  for (; u < state; ++u) backward_units(d1, row, state, u);
}

template <typename From, typename T>
void copy_or_clear(const From* from, std::int64_t count, T* to) {
  if (from != nullptr) {
    copy_as(from, count, to);
  } else {
    std::fill_n(to, count, T{});
  }
}

/// One call of lltm_backward(), with the parts of its workspace.
template <typename In, typename T>
struct Run {
  const LltmShape& s;
  const LltmBackward<In, T>& a;
  const LltmPlan& plan;
  PackedLayout packed{s, kUnits<T>};
  BackwardLayout layout{s, plan};
  std::int64_t state = s.batch * s.state;  // elements of all units at one step
  T* grad_h = a.workspace + layout.grad_h();
  T* grad_c = a.workspace + layout.grad_c();
  Panels<T> inputs{a.workspace + layout.panels(), layout.chunk_rows() * kPanelColumns<T>};

  bool recomputes() const { return plan.keep_every > 0; }
  Panels<const T> weights_at(std::int64_t offset) const {
    return {a.packed + offset, packed.panel_stride()};
  }
};

/// Steps first .. last. The sums of grad_weight run over the steps last to first,
/// the order in which they become known, so segments change no bit of them.
template <typename In, typename T>
struct Segment {
  const Run<In, T>& run;
  std::int64_t first;
  std::int64_t last;

  std::int64_t rows() const { return (last - first) * run.s.batch; }
  /// The last step stands first. Gates that are computed again are here before.
  T* grad_gates(std::int64_t t) const { return run.a.workspace + (last - 1 - t) * 3 * run.state; }
  const T* gates(std::int64_t t) const {
    return run.recomputes() ? grad_gates(t) : run.a.gates + t * 3 * run.state;
  }
  /// c before the segment's first step, where gates are computed again.
  const T* cells_before() const {
    return first == 0 ? run.a.c0 : run.a.cells + (first / run.plan.keep_every - 1) * run.state;
  }
  T* squashed_again(std::int64_t t) const {
    return run.a.workspace + run.layout.squashed() + (t - first) * run.state;
  }
  const T* squashed(std::int64_t t) const {
    return run.recomputes() ? squashed_again(t) : run.a.cells + t * run.state;
  }
};

/// Gates and tanh(c) of a segment's steps, rows first .. last.
template <typename In, typename T>
HWY_INLINE void recompute(const Segment<In, T>& segment, std::int64_t first, std::int64_t last) {
  const Run<In, T>& run = segment.run;
  const LltmBackward<In, T>& a = run.a;
  T* h = a.workspace + run.layout.inputs();
  T* x = h + run.state;
  T* cells = a.workspace + run.layout.cells();
  const std::int64_t width = run.s.input;
  for (std::int64_t t = segment.first; t < segment.last; ++t) {
    run_step(run.s,
             Step<T>{.x = in_type(a.x + t * run.s.batch * width, first * width, last * width, x),
                     .h = in_type(hidden_before(run.s, a.h0, a.hidden, t), first * run.s.state,
                                  last * run.s.state, h),
                     .c = t == segment.first ? segment.cells_before() : cells,
                     .cells = cells,
                     .hidden = nullptr,
                     .squashed = segment.squashed_again(t),
                     .gates = segment.grad_gates(t)},
             a.packed, first, last);
  }
}

/// Rows first .. last of a segment: fills grad_gates and grad_x, and takes grad_h
/// and grad_c from the step after the segment to the step before it.
template <typename In, typename T>
HWY_NOINLINE void backward_steps(const Segment<In, T>& segment, std::int64_t first,
                                 std::int64_t last) {
  const Run<In, T>& run = segment.run;
  const LltmShape& s = run.s;
  const LltmBackward<In, T>& a = run.a;
  if (run.recomputes()) recompute(segment, first, last);
  for (std::int64_t t = segment.last - 1; t >= segment.first; --t) {
    for (std::int64_t at = first * s.state; at < last * s.state; at += s.state) {
      backward_row(
          Row<In, T>{.gates = segment.gates(t) + 3 * at,
                     .squashed = segment.squashed(t) + at,
                     .grad_hidden =
                         a.grad_hidden == nullptr ? nullptr : a.grad_hidden + t * run.state + at,
                     .grad_h = run.grad_h + at,
                     .grad_c = run.grad_c + at,
                     .grad_gates = segment.grad_gates(t) + 3 * at},
          s.state);
    }
    const RowMajor<T> grads{segment.grad_gates(t) + first * 3 * s.state, 3 * s.state};
    if (t > 0 || a.grad_h0 != nullptr) {
      product(grads, last - first, 3 * s.state, run.weights_at(run.packed.h_panels()), s.state,
              Output<T>{run.grad_h + first * s.state, s.state, false});
    }
    if (a.grad_x != nullptr) {
      product(grads, last - first, 3 * s.state, run.weights_at(run.packed.x_panels()), s.input,
              Output<T>{a.grad_x + (t * s.batch + first) * s.input, s.input, false});
    }
  }
}

/// Packs [h before the step, x] of rows first .. first + count of a segment, its
/// last step first.
template <typename In, typename T>
HWY_INLINE void pack_inputs(const Segment<In, T>& segment, std::int64_t first, std::int64_t count) {
  const Run<In, T>& run = segment.run;
  const LltmShape& s = run.s;
  for (std::int64_t i = first; i < first + count; ++i) {
    const std::int64_t t = segment.last - 1 - i / s.batch;
    const std::int64_t b = i % s.batch;
    const In* h = hidden_before(s, run.a.h0, run.a.hidden, t) + b * s.state;
    const In* x = run.a.x + (t * s.batch + b) * s.input;
    const Panels<T> to = run.inputs.from_row(i - first);
    copy_to_row(h, s.state, to, 0);
    copy_to_row(x, s.input, to, s.state);
    clear_row_rest(to, s.state + s.input, kUnits<T>);
  }
}

/// Adds gates first .. last of `rows` rows to grad_weight and grad_bias.
template <typename In, typename T>
HWY_NOINLINE void add_gradients(const Run<In, T>& run, const T* grad_gates, std::int64_t rows,
                                std::int64_t first, std::int64_t last, bool add) {
  const RowMajor<T> grads{grad_gates, 3 * run.s.state};
  if (run.a.grad_bias != nullptr) {
    add_bias_gradient(grads, rows, first, last, run.a.grad_bias);
  }
  if (run.a.grad_weight != nullptr) {
    add_weight_gradient(grads, Panels<const T>{run.inputs.data, run.inputs.stride}, rows, first,
                        last, run.s.state + run.s.input, add, run.a.grad_weight);
  }
}

template <typename In, typename T>
HWY_INLINE void backward_segment(const Segment<In, T>& segment) {
  const Run<In, T>& run = segment.run;
  const LltmThreads& threads = run.plan.threads;
  for_each_part(threads, run.s.batch, kRowGrain,
                [&](std::int64_t first, std::int64_t last)
                    HWY_ATTR { backward_steps(segment, first, last); });
  if (run.a.grad_weight == nullptr && run.a.grad_bias == nullptr) return;
  const std::int64_t chunk = run.layout.chunk_rows();
  for (std::int64_t first = 0; first < segment.rows(); first += chunk) {
    const std::int64_t rows = std::min(chunk, segment.rows() - first);
    const bool add = segment.last < run.s.steps || first > 0;
    if (run.a.grad_weight != nullptr) pack_inputs(segment, first, rows);
    for_each_part(
        threads, 3 * run.s.state, kRowGrain, [&](std::int64_t gate, std::int64_t last) HWY_ATTR {
          add_gradients(run, run.a.workspace + first * 3 * run.s.state, rows, gate, last, add);
        });
  }
}

template <typename In, typename T>
HWY_INLINE void backward(const LltmShape& s, const LltmBackward<In, T>& a, const LltmPlan& plan) {
  const Run<In, T> run{s, a, plan};
  copy_or_clear(a.grad_h_last, run.state, run.grad_h);
  copy_or_clear(a.grad_c_last, run.state, run.grad_c);
  if (a.grad_bias != nullptr) std::fill_n(a.grad_bias, 3 * s.state, T{});
  if (a.grad_weight != nullptr && s.steps * s.batch == 0) {
    std::fill_n(a.grad_weight, 3 * s.state * (s.state + s.input), T{});
  }
  const std::int64_t steps = run.layout.steps();
  for (std::int64_t end = s.steps; end > 0;) {
    const std::int64_t first = (end - 1) / steps * steps;
    backward_segment(Segment<In, T>{run, first, end});
    end = first;
  }
  if (a.grad_h0 != nullptr) std::copy_n(run.grad_h, run.state, a.grad_h0);
  if (a.grad_c0 != nullptr) std::copy_n(run.grad_c, run.state, a.grad_c0);
}

void backward_float(const LltmShape& s, const LltmBackward<float>& a, const LltmPlan& plan) {
  backward(s, a, plan);
}
void backward_double(const LltmShape& s, const LltmBackward<double>& a, const LltmPlan& plan) {
  backward(s, a, plan);
}

void backward_bfloat16(const LltmShape& s, const LltmBackward<Bfloat16>& a, const LltmPlan& plan) {
  backward(s, a, plan);
}
void backward_float16(const LltmShape& s, const LltmBackward<Float16>& a, const LltmPlan& plan) {
  backward(s, a, plan);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
HWY_EXPORT(backward_bfloat16);
HWY_EXPORT(backward_float16);
}  // namespace

void lltm_backward(const LltmShape& shape, const LltmBackward<float>& arrays,
                   const LltmPlan& plan) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_float)(shape, arrays, plan);
}

void lltm_backward(const LltmShape& shape, const LltmBackward<double>& arrays,
                   const LltmPlan& plan) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_double)(shape, arrays, plan);
}

void lltm_backward(const LltmShape& shape, const LltmBackward<Bfloat16>& arrays,
                   const LltmPlan& plan) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_bfloat16)(shape, arrays, plan);
}

void lltm_backward(const LltmShape& shape, const LltmBackward<Float16>& arrays,
                   const LltmPlan& plan) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_float16)(shape, arrays, plan);
}

}  // namespace passel::kernels
#endif
