#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compensate_delay.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include "passel/kernels/update.h"
#include "settle_isa.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void compensate_lanes(D d, float lambda, const float* gradient, const float* now,
                                 const float* then, float* out) {
  const auto g = hn::LoadU(d, gradient);
  const auto way = hn::Sub(hn::LoadU(d, now), hn::LoadU(d, then));
  const auto curvature = hn::Mul(hn::Mul(hn::Set(d, lambda), g), g);
  hn::StoreU(mul_add(d, curvature, way, g), d, out);
}

void compensate(float lambda, const float* gradient, const float* now, const float* then,
                float* out, std::size_t n) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    compensate_lanes(d, lambda, gradient + i, now + i, then + i, out + i);
  }
  for (; i < n; ++i) compensate_lanes(d1, lambda, gradient + i, now + i, then + i, out + i);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(compensate);
}  // namespace

void compensate_delay(float lambda, const float* gradient, const float* now, const float* then,
                      float* out, std::size_t n) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(compensate)(lambda, gradient, now, then, out, n);
}

}  // namespace passel::kernels
#endif
