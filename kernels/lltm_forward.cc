#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_forward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include "lltm_layout.h"
#include "lltm_parts.h"
#include "lltm_step-inl.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

/// All steps of rows first .. last: rows do not see each other.
template <typename T, typename Sum>
HWY_NOINLINE void forward_rows(const LltmShape& s, const LltmForward<T, Sum>& a,
                               const LltmPlan& plan, std::int64_t first, std::int64_t last) {
  const std::int64_t every = std::max(plan.keep_every, std::int64_t{1});
  const std::int64_t state = s.batch * s.state;
  const StepInputs<T, Sum> inputs{s, a.workspace};
  for (std::int64_t t = 0; t < s.steps; ++t) {
    Sum* cells = a.cells + t / every * state;
    run_step(s,
             Step<Sum, T>{.x = inputs.x(a.x, t, first, last),
                          .h = inputs.h(a.h0, a.hidden, t, first, last),
                          .c = t % every == 0 ? cells_before(s, plan, a.c0, a.cells, t) : cells,
                          .hidden = a.hidden + t * state,
                          .cells = cells,
                          .gates = plan.keep_every > 0 ? nullptr : a.gates + 3 * t * state},
             a.packed, first, last);
  }
}

template <typename T>
HWY_INLINE void forward(const LltmShape& s, const LltmForward<T>& a, const LltmPlan& plan) {
  for_each_part(plan.threads, s.batch, kRowGroup,
                [&](std::int64_t first, std::int64_t last)
                    HWY_ATTR { forward_rows(s, a, plan, first, last); });
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
