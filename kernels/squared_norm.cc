#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "squared_norm.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include "passel/kernels/update.h"
#include "settle_isa.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Element i is added to partial sum i % 16, whatever the width of vectors. The
/// square of a float is exact in double.
constexpr std::size_t kPartialSums = 16;

double squares(const float* values, std::size_t n) {
  const hn::CappedTag<double, kPartialSums / 2> d;
  const hn::Rebind<float, decltype(d)> narrow;
  constexpr std::size_t kLanes = hn::MaxLanes(decltype(d)());
  constexpr std::size_t kVectors = kPartialSums / kLanes;
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kPartialSums <= n; i += kPartialSums) {
    for (std::size_t j = 0; j < kVectors; ++j) {
      const auto x = hn::PromoteTo(d, hn::LoadU(narrow, values + i + j * kLanes));
      sums[j] = hn::Add(sums[j], hn::Mul(x, x));
    }
  }
  HWY_ALIGN double partial[kPartialSums];
  for (std::size_t j = 0; j < kVectors; ++j) hn::Store(sums[j], d, partial + j * kLanes);
  for (std::size_t j = 0; i < n; ++i, ++j) {
    partial[j] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  double total = 0;
  for (const double sum : partial) total += sum;
  return total;
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(squares);
}  // namespace

double squared_norm(const float* values, std::size_t n) noexcept {
  settle_isa();
  return HWY_DYNAMIC_DISPATCH(squares)(values, n);
}

}  // namespace passel::kernels
#endif
