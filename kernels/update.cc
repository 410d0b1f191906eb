// The one file with intended data races. In Hogwild mode several processes run
// apply_update() on the same parameters and the same state without locks. Plain
// vector loads and stores are used on purpose: relaxed atomics would keep the
// compiler from vectorising. It holds because each element is loaded once and
// stored once, aligned 4-byte elements do not tear on any supported machine, and
// any mixture of old and new elements is a legal state for Hogwild.
// ThreadSanitizer rightly reports the races when the processes are threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "update.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <atomic>

#include "passel/kernels/update.h"
#include "settle_isa.h"
#include "update_factors.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Lanes = hn::Vec<D>;
using hn::Add;
using hn::Div;
using hn::LoadU;
using hn::Mul;
using hn::Set;
using hn::Sqrt;
using hn::StoreU;
using hn::Sub;

#define PASSEL_UPDATE_INLINE HWY_INLINE
#include "update_formulas-inl.h"
#undef PASSEL_UPDATE_INLINE

template <UpdateRule kRule>
HWY_INLINE void update_all(const UpdateFactors& f, bool momentum, const UpdateArrays& a,
                           const float* gradient, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) update_lanes<kRule>(d, f, momentum, a, gradient, i);
  for (; i < n; ++i) update_lanes<kRule>(d1, f, momentum, a, gradient, i);
}

void update(const UpdateOptions& options, const UpdateStep& step, const UpdateSource& from,
            const float* gradient, float* parameters, std::span<float* const> state,
            std::size_t n) {
  const UpdateArrays a = update_arrays(from, parameters, state);
  const UpdateFactors f = update_factors(options, step);
  const bool momentum = options.momentum != 0;
  switch (options.rule) {
    case UpdateRule::kSgd:
      return update_all<UpdateRule::kSgd>(f, momentum, a, gradient, n);
    case UpdateRule::kRmsprop:
      return update_all<UpdateRule::kRmsprop>(f, momentum, a, gradient, n);
    case UpdateRule::kAdagrad:
      return update_all<UpdateRule::kAdagrad>(f, momentum, a, gradient, n);
    case UpdateRule::kAdam:
    case UpdateRule::kAdamw:
      return update_all<UpdateRule::kAdam>(f, momentum, a, gradient, n);
  }
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(update);
}  // namespace

void apply_update(const UpdateOptions& options, const UpdateStep& step, const UpdateSource& from,
                  const float* gradient, float* parameters, std::span<float* const> state,
                  std::size_t n) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(update)(options, step, from, gradient, parameters, state, n);
}

void apply_update(const UpdateOptions& options, const UpdateStep& step, float* parameters,
                  const float* gradient, std::span<float* const> state, std::size_t n) noexcept {
  apply_update(options, step, {parameters, state}, gradient, parameters, state, n);
}

void add_atomically(float* values, const float* deltas, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    // Relaxed: each element is a sum of its own; nothing else is published through it.
    std::atomic_ref(values[i]).fetch_add(deltas[i], std::memory_order_relaxed);
  }
}

}  // namespace passel::kernels
#endif
