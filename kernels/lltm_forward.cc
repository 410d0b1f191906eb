#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_forward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "copy_as.h"
#include "lltm_layout.h"
#include "lltm_parts.h"
#include "lltm_step-inl.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

/// Where forward puts what backward wants to know of c.
template <typename Sum>
struct Kept {
  const LltmShape& s;
  const LltmPlan& plan;
  Sum* cells;
  const Sum* c_last;

  Sum* squashed(std::int64_t t) const {
    return plan.keep_every > 0 ? nullptr : cells + t * s.batch * s.state;
  }
  /// Rows first .. last of c after step t, if it is to be kept.
  void keep(std::int64_t t, std::int64_t first, std::int64_t last) const {
    if (plan.keep_every == 0 || ((t + 1) % plan.keep_every != 0 && t + 1 != s.steps)) return;
    std::copy(c_last + first * s.state, c_last + last * s.state,
              cells + (t / plan.keep_every * s.batch + first) * s.state);
  }
};

/// All steps of rows first .. last: rows do not see each other.
template <typename T>
HWY_NOINLINE void forward_rows(const LltmShape& s, const LltmForward<T>& a, const LltmPlan& plan,
                               std::int64_t first, std::int64_t last) {
  const Kept<T> kept{s, plan, a.cells, a.c_last};
  const std::int64_t state = s.batch * s.state;
  for (std::int64_t t = 0; t < s.steps; ++t) {
    run_step(s,
             Step<T>{.x = a.x + t * s.batch * s.input,
                     .h = hidden_before<T>(s, a.h0, a.hidden, t),
                     .c = t == 0 ? a.c0 : a.c_last,
                     .cells = a.c_last,
                     .hidden = a.hidden + t * state,
                     .squashed = kept.squashed(t),
                     .gates = plan.keep_every > 0 ? nullptr : a.gates + 3 * t * state},
             a.packed, first, last);
    kept.keep(t, first, last);
  }
}

/// The same for 16-bit arrays, a step at a time: x and h become floats in the
/// workspace, and h of the step is rounded before the next step reads it.
template <typename Half>
HWY_NOINLINE void forward_half_rows(const LltmShape& s, const LltmForward<Half>& a,
                                    const LltmPlan& plan, std::int64_t first, std::int64_t last) {
  const Kept<float> kept{s, plan, a.cells, a.c_last};
  const std::int64_t state = s.batch * s.state;
  float* x = a.workspace;
  float* h = x + s.batch * s.input;
  float* next = h + state;
  copy_as(a.h0 + first * s.state, (last - first) * s.state, h + first * s.state);
  for (std::int64_t t = 0; t < s.steps; ++t) {
    copy_as(a.x + (t * s.batch + first) * s.input, (last - first) * s.input, x + first * s.input);
    run_step(s,
             Step<float>{.x = x,
                         .h = h,
                         .c = t == 0 ? a.c0 : a.c_last,
                         .cells = a.c_last,
                         .hidden = next,
                         .squashed = kept.squashed(t),
                         .gates = plan.keep_every > 0 ? nullptr : a.gates + 3 * t * state},
             a.packed, first, last);
    kept.keep(t, first, last);
    Half* hidden = a.hidden + t * state;
    for (std::int64_t i = first * s.state; i < last * s.state; ++i) {
      hidden[i] = from_float<Half>(next[i]);
      h[i] = to_float(hidden[i]);
    }
  }
}

template <typename T>
HWY_INLINE void forward(const LltmShape& s, const LltmForward<T>& a, const LltmPlan& plan) {
  if (s.steps == 0) std::copy_n(a.c0, s.batch * s.state, a.c_last);
  for_each_part(plan.threads, s.batch, kRowGrain,
                [&](std::int64_t first, std::int64_t last) HWY_ATTR {
                  if constexpr (std::is_floating_point_v<T>) {
                    forward_rows(s, a, plan, first, last);
                  } else {
                    forward_half_rows(s, a, plan, first, last);
                  }
                });
}

void forward_float(const LltmShape& s, const LltmForward<float>& a, const LltmPlan& plan) {
  forward(s, a, plan);
}
void forward_double(const LltmShape& s, const LltmForward<double>& a, const LltmPlan& plan) {
  forward(s, a, plan);
}
void forward_bfloat16(const LltmShape& s, const LltmForward<Bfloat16>& a, const LltmPlan& plan) {
  forward(s, a, plan);
}
void forward_float16(const LltmShape& s, const LltmForward<Float16>& a, const LltmPlan& plan) {
  forward(s, a, plan);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
HWY_EXPORT(forward_bfloat16);
HWY_EXPORT(forward_float16);

template <typename T>
void prepare(const LltmShape& shape, const LltmForward<T>& a) {
  settle_isa();
  if (a.weight != nullptr) lltm_pack(shape, a.weight, a.bias, a.packed);
}
}  // namespace

void lltm_forward(const LltmShape& shape, const LltmForward<float>& arrays,
                  const LltmPlan& plan) noexcept {
  prepare(shape, arrays);
  HWY_DYNAMIC_DISPATCH(forward_float)(shape, arrays, plan);
}

void lltm_forward(const LltmShape& shape, const LltmForward<double>& arrays,
                  const LltmPlan& plan) noexcept {
  prepare(shape, arrays);
  HWY_DYNAMIC_DISPATCH(forward_double)(shape, arrays, plan);
}

void lltm_forward(const LltmShape& shape, const LltmForward<Bfloat16>& arrays,
                  const LltmPlan& plan) noexcept {
  prepare(shape, arrays);
  HWY_DYNAMIC_DISPATCH(forward_bfloat16)(shape, arrays, plan);
}

void lltm_forward(const LltmShape& shape, const LltmForward<Float16>& arrays,
                  const LltmPlan& plan) noexcept {
  prepare(shape, arrays);
  HWY_DYNAMIC_DISPATCH(forward_float16)(shape, arrays, plan);
}

}  // namespace passel::kernels
#endif
