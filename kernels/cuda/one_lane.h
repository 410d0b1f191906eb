#pragma once

#include <cmath>
#include <cstddef>

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

}  // namespace passel::kernels::one_lane
