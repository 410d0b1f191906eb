#pragma once

// Instruction sets that Highway compiles the kernels for; included before any of
// Highway's headers. What stays are AVX-512, AVX2, NEON and scalar code: all of
// them round a multiply-add once, so all of them give the same bits.
//
// SSE has no fused multiply-add and would give other bits. A CPU without AVX2 is
// older than 2013; it runs the scalar code with std::fma, right but slow.
// SVE vectors have no size at compile time and so cannot form an array of
// accumulators; such CPUs have NEON too.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
