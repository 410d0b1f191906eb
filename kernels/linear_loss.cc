// The losses on a layer's outputs. Element i of a sum is added to partial sum
// i % 16, whatever the width of vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linear_loss.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "gemm_tile-inl.h"
#include "passel/kernels/linear_loss.h"
#include "settle_isa.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kPartialSums = 16;

template <typename T>
T in_order(const T (&partial)[kPartialSums]) {
  T total = 0;
  for (const T sum : partial) total += sum;
  return total;
}

/// The first `count` elements at p; the other lanes are -infinity, whose exp is 0.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_logits(D d, const T* p, std::int64_t count) {
  if (count >= static_cast<std::int64_t>(kLanes<D>)) return hn::LoadU(d, p);
  HWY_ALIGN T lanes[kLanes<D>];
  T* rest = std::copy_n(p, count, lanes);
  std::fill(rest, lanes + kLanes<D>, -std::numeric_limits<T>::infinity());
  return hn::Load(d, lanes);
}

/// A NaN may be missed: it reaches every result through exp(logit - largest).
template <typename T>
HWY_INLINE T largest_of(const T* row, std::int64_t classes) {
  const hn::CappedTag<T, kPartialSums> d;
  constexpr auto kStep = static_cast<std::int64_t>(kLanes<decltype(d)>);
  auto largest = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (std::int64_t c = 0; c < classes; c += kStep) {
    largest = hn::Max(largest, load_logits(d, row + c, classes - c));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

/// The sum of exp(logit - largest) over a row; the terms are left in `terms`,
/// where that is not nullptr.
template <typename T>
HWY_INLINE T sum_of_exp(const T* row, std::int64_t classes, T largest, T* terms) {
  const hn::CappedTag<T, kPartialSums> d;
  constexpr auto kStep = static_cast<std::int64_t>(kLanes<decltype(d)>);
  constexpr std::int64_t kVectors = kPartialSums / kStep;
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  for (std::int64_t first = 0; first < classes; first += kPartialSums) {
    for (std::int64_t j = 0; j < kVectors; ++j) {
      const std::int64_t c = first + j * kStep;
      if (c >= classes) break;
      const auto logits = load_logits(d, row + c, classes - c);
      const auto term = exp_of_negative(d, hn::Sub(logits, hn::Set(d, largest)));
      if (terms != nullptr) {
        store_some(term, d, terms + c, static_cast<std::size_t>(classes - c));
      }
      sums[j] = hn::Add(sums[j], term);
    }
  }
  HWY_ALIGN T partial[kPartialSums];
  for (std::int64_t j = 0; j < kVectors; ++j) hn::Store(sums[j], d, partial + j * kStep);
  return in_order(partial);
}

template <typename T>
HWY_INLINE T log_of(T x) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(log(d, hn::Set(d, x)));
}

template <typename T>
HWY_INLINE std::optional<std::int64_t> cross_entropy_all(std::int64_t batch, std::int64_t classes,
                                                         const CrossEntropy<T>& a) {
  const T share = T{1} / static_cast<T>(batch);
  double total = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t target = a.target[b];
    if (target < 0 || target >= classes) return b;
    const T* row = a.logits + b * classes;
    T* slopes = a.slopes == nullptr ? nullptr : a.slopes + b * classes;
    const T largest = largest_of(row, classes);
    const T right = row[target] - largest;  // before the slopes overwrite the logits
    const T sum = sum_of_exp(row, classes, largest, slopes);
    total += static_cast<double>(log_of(sum) - right);
    if (slopes == nullptr) continue;
    // softmax - 1 at the target, softmax elsewhere, each over B.
    const T at_target = (slopes[target] / sum - T{1}) * share;
    for (std::int64_t c = 0; c < classes; ++c) slopes[c] = slopes[c] / sum * share;
    slopes[target] = at_target;
  }
  *a.loss = static_cast<T>(total / static_cast<double>(batch));
  return std::nullopt;
}

template <typename T>
HWY_INLINE void squared_error_all(std::int64_t count, const SquaredError<T>& a) {
  const T slope = T{2} / static_cast<T>(count);
  double partial[kPartialSums] = {};
  for (std::int64_t first = 0; first < count; first += kPartialSums) {
    const std::int64_t some = std::min(kPartialSums, count - first);
    for (std::int64_t j = 0; j < some; ++j) {
      const T difference = a.output[first + j] - a.target[first + j];
      partial[j] += static_cast<double>(difference) * static_cast<double>(difference);
      if (a.slopes != nullptr) a.slopes[first + j] = difference * slope;
    }
  }
  *a.loss = static_cast<T>(in_order(partial) / static_cast<double>(count));
}

std::optional<std::int64_t> cross_entropy_float(std::int64_t batch, std::int64_t classes,
                                                const CrossEntropy<float>& a) {
  return cross_entropy_all(batch, classes, a);
}
std::optional<std::int64_t> cross_entropy_double(std::int64_t batch, std::int64_t classes,
                                                 const CrossEntropy<double>& a) {
  return cross_entropy_all(batch, classes, a);
}
void squared_error_float(std::int64_t count, const SquaredError<float>& a) {
  squared_error_all(count, a);
}
void squared_error_double(std::int64_t count, const SquaredError<double>& a) {
  squared_error_all(count, a);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(cross_entropy_float);
HWY_EXPORT(cross_entropy_double);
HWY_EXPORT(squared_error_float);
HWY_EXPORT(squared_error_double);
}  // namespace

std::optional<std::int64_t> cross_entropy(std::int64_t batch, std::int64_t classes,
                                          const CrossEntropy<float>& arrays) noexcept {
  settle_isa();
  return HWY_DYNAMIC_DISPATCH(cross_entropy_float)(batch, classes, arrays);
}

std::optional<std::int64_t> cross_entropy(std::int64_t batch, std::int64_t classes,
                                          const CrossEntropy<double>& arrays) noexcept {
  settle_isa();
  return HWY_DYNAMIC_DISPATCH(cross_entropy_double)(batch, classes, arrays);
}

void squared_error(std::int64_t count, const SquaredError<float>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(squared_error_float)(count, arrays);
}

void squared_error(std::int64_t count, const SquaredError<double>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(squared_error_double)(count, arrays);
}

}  // namespace passel::kernels
#endif
