#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "lltm_math.h"
#include "update_factors.h"

// The update rules and what else is done to each element of the flat block, one float at a time:
// what a thread of a GPU computes, and in tests the CPU.
namespace passel::kernels::one_lane {

struct Tag {};
template <class D>
using Lanes = float;

// The operations have the names that they have in Highway.
// NOLINTBEGIN(readability-identifier-naming)
// Each is rounded once: left to itself, a compiler for GPUs makes one operation of a product and a
// sum.
#ifdef __CUDA_ARCH__
#define PASSEL_ROUNDED(on_gpu, on_cpu) return on_gpu
#else
#define PASSEL_ROUNDED(on_gpu, on_cpu) return on_cpu
#endif
PASSEL_HOST_DEVICE inline float Add(float a, float b) {
  PASSEL_ROUNDED(__fadd_rn(a, b), a + b);
}
PASSEL_HOST_DEVICE inline float Sub(float a, float b) {
  PASSEL_ROUNDED(__fsub_rn(a, b), a - b);
}
PASSEL_HOST_DEVICE inline float Mul(float a, float b) {
  PASSEL_ROUNDED(__fmul_rn(a, b), a * b);
}
PASSEL_HOST_DEVICE inline float Div(float a, float b) {
  PASSEL_ROUNDED(__fdiv_rn(a, b), a / b);
}
PASSEL_HOST_DEVICE inline float Sqrt(float a) {
  PASSEL_ROUNDED(__fsqrt_rn(a), std::sqrt(a));
}
PASSEL_HOST_DEVICE inline float mul_add(Tag, float a, float b, float c) {
  PASSEL_ROUNDED(__fmaf_rn(a, b, c), std::fma(a, b, c));
}
#undef PASSEL_ROUNDED
PASSEL_HOST_DEVICE inline float Set(Tag, float value) {
  return value;
}
PASSEL_HOST_DEVICE inline float LoadU(Tag, const float* from) {
  return *from;
}
PASSEL_HOST_DEVICE inline void StoreU(float value, Tag, float* to) {
  *to = value;
}

// NOLINTEND(readability-identifier-naming)

#define PASSEL_UPDATE_INLINE PASSEL_HOST_DEVICE inline
#include "update_formulas-inl.h"
#undef PASSEL_UPDATE_INLINE

/// As kernels::compensate_delay().
PASSEL_HOST_DEVICE inline float compensated(float lambda, float gradient, float now, float then) {
  const float curvature = Mul(Mul(lambda, gradient), gradient);
  return mul_add(Tag(), curvature, Sub(now, then), gradient);
}

/// to += value, losing no addition that is made meanwhile, by whatever process. A GPU takes
/// subnormal numbers for zeros here.
PASSEL_HOST_DEVICE inline void add_atomically(float value, float* to) {
#ifdef __CUDA_ARCH__
  atomicAdd_system(to, value);
#else
  std::atomic_ref(*to).fetch_add(value);
#endif
}

/// As update_lanes() in place, but what the parameter changes by is added to whatever it is then.
template <UpdateRule kRule>
PASSEL_HOST_DEVICE inline void add_update(const UpdateFactors& f, bool momentum,
                                          const UpdateArrays& a, const float* gradient,
                                          std::size_t i) {
  const float old = a.parameters[i];
  const float way = direction<kRule>(Tag(), f, momentum, a, gradient, old, i);
  const float shrunk = Sub(Mul(old, f.shrink), old);
  add_atomically(mul_add(Tag(), way, -f.step_size, shrunk), a.new_parameters + i);
}

template <UpdateRule kRule>
using RuleConstant = std::integral_constant<UpdateRule, kRule>;

/// Calls `use` with the rule as a constant, whose formulas are those of the rule.
template <class Use>
void with_rule(UpdateRule rule, Use&& use) {
  switch (rule) {
    case UpdateRule::kSgd:
      return use(RuleConstant<UpdateRule::kSgd>());
    case UpdateRule::kRmsprop:
      return use(RuleConstant<UpdateRule::kRmsprop>());
    case UpdateRule::kAdagrad:
      return use(RuleConstant<UpdateRule::kAdagrad>());
    case UpdateRule::kAdam:
    case UpdateRule::kAdamw:
      return use(RuleConstant<UpdateRule::kAdam>());
  }
}

}  // namespace passel::kernels::one_lane
