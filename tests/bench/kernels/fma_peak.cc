#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>
#include <chrono>

#include "fma_peak.h"

HWY_BEFORE_NAMESPACE();
namespace bench::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Independent sums, enough to hide the latency of a multiply-add, and few enough for the
/// registers: 16 on AVX2, else 32.
#if HWY_TARGET == HWY_AVX2
constexpr int kChains = 12;
#else
constexpr int kChains = 24;
#endif

double fma_chains(std::int64_t rounds) {
  const hn::ScalableTag<float> d;
  const volatile float factor = 0.999F, summand = 0.001F;
  const auto a = hn::Set(d, factor), b = hn::Set(d, summand);
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& sum : sums) sum = b;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 24
    for (auto& sum : sums) sum = hn::MulAdd(sum, a, b);
  }
  auto all = sums[0];
  for (int i = 1; i < kChains; ++i) all = hn::Add(all, sums[i]);
  const volatile float used = hn::GetLane(all);
  static_cast<void>(used);
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace
}  // namespace bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bench {
namespace {
HWY_EXPORT(fma_chains);

constexpr double kFlopsPerRun = 3e7;
constexpr int kRuns = 3;
}  // namespace

FmaPeak::FmaPeak() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  chains_ = HWY_DYNAMIC_DISPATCH(fma_chains);
  rounds_ = static_cast<std::int64_t>(kFlopsPerRun / chains_(1));
}

double FmaPeak::flops_per_second() const {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    const auto start = Clock::now();
    const double flops = chains_(rounds_);
    best = std::max(best, flops / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace bench
#endif
