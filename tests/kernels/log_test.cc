// The vectors' logarithm by itself, on every instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/log_test.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <cstddef>

#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

/// `count` is a multiple of 16.
template <typename T>
void logs(const T* x, T* out, std::size_t count) {
  const hn::CappedTag<T, 16> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(log(d, hn::LoadU(d, x + i)), d, out + i);
  }
}

void logs_float(const float* x, float* out, std::size_t count) {
  logs(x, out, count);
}
void logs_double(const double* x, double* out, std::size_t count) {
  logs(x, out, count);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "each_target.h"

namespace passel::kernels {
namespace {
HWY_EXPORT(logs_float);
HWY_EXPORT(logs_double);

std::vector<float> logs_of(std::vector<float> x) {
  HWY_DYNAMIC_DISPATCH(logs_float)(x.data(), x.data(), x.size());
  return x;
}
std::vector<double> logs_of(std::vector<double> x) {
  HWY_DYNAMIC_DISPATCH(logs_double)(x.data(), x.data(), x.size());
  return x;
}

/// Magnitudes over the whole range of T, denormals included, and many close to 1.
template <typename T>
std::vector<T> arguments() {
  std::mt19937_64 engine(23);
  const auto uniform = [&] { return static_cast<double>(engine() >> 11) * 0x1p-53; };
  std::vector<T> x;
  constexpr int kLowest = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  constexpr int kHighest = std::numeric_limits<T>::max_exponent;
  for (int i = 0; i < 40000; ++i) {
    const int exponent = kLowest + static_cast<int>(uniform() * (kHighest - kLowest));
    x.push_back(std::ldexp(static_cast<T>(1 + uniform()), exponent));
    x.push_back(static_cast<T>(0.5 + uniform()));
    x.push_back(static_cast<T>(1 + std::ldexp(uniform() - 0.5, -static_cast<int>(i % 50))));
    x.push_back(static_cast<T>(1 + 1000 * uniform()));
  }
  return x;
}

template <typename T>
double ulps(T value, long double exact) {
  const T rounded = std::abs(static_cast<T>(exact));
  const T next = std::nextafter(rounded, std::numeric_limits<T>::infinity());
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / (next - rounded));
}

template <typename T>
void expect_within_two_ulps() {
  const auto x = arguments<T>();
  const auto y = logs_of(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, ulps(y[i], std::log(static_cast<long double>(x[i]))));
  }
  EXPECT_LE(worst, 2);
}

TEST(Log, IsWithinTwoUlpsInFloat) {
  expect_within_two_ulps<float>();
}
TEST(Log, IsWithinTwoUlpsInDouble) {
  expect_within_two_ulps<double>();
}

template <typename T>
void expect_same_on_each_target() {
  const auto x = arguments<T>();
  const auto usual = logs_of(x);
  test::with_each_target([&] {
    const auto forced = logs_of(x);
    EXPECT_EQ(std::memcmp(forced.data(), usual.data(), usual.size() * sizeof(T)), 0);
  });
}

TEST(Log, HasTheSameBitsOnEveryInstructionSetInFloat) {
  expect_same_on_each_target<float>();
}
TEST(Log, HasTheSameBitsOnEveryInstructionSetInDouble) {
  expect_same_on_each_target<double>();
}

template <typename T>
void expect_known_values() {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::vector<T> x(16, T{1});
  const T special[] = {T{0}, -T{0}, kInfinity, -kInfinity, T{-1}, static_cast<T>(std::nan(""))};
  std::ranges::copy(special, x.begin());
  const auto y = logs_of(x);
  EXPECT_EQ(y[0], -kInfinity);
  EXPECT_EQ(y[1], -kInfinity);
  EXPECT_EQ(y[2], kInfinity);
  for (const int i : {3, 4, 5}) EXPECT_TRUE(std::isnan(y[static_cast<std::size_t>(i)])) << i;
  EXPECT_EQ(y[6], T{0});
}

TEST(Log, HasItsLimitsAndPassesNanOn) {
  expect_known_values<float>();
  expect_known_values<double>();
}

}  // namespace
}  // namespace passel::kernels
#endif
