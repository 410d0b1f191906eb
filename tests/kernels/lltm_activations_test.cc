// The activations, seen through the cell: with S = I = 1, W = [0, 1] and b = 0,
// every gate's argument is x itself; with i = 0 and o = 1, h' is tanh(c).
#include <cmath>

#include "lltm_case.h"

namespace passel::kernels::test {
namespace {

template <typename T>
struct Activations {
  std::vector<T> sigmoid, elu, tanh;
};

template <typename T>
Activations<T> activations_of(const std::vector<T>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  LltmCase<T> c({.steps = 1, .batch = n, .input = 1, .state = 1}, 1);
  for (std::size_t gate = 0; gate < 3; ++gate) {
    c.weight[2 * gate] = T{0};
    c.weight[2 * gate + 1] = T{1};
    c.bias[gate] = T{0};
  }
  std::ranges::copy(values, c.x.data());
  c.forward();
  Activations<T> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(c.gates[3 * i]), std::isnan(c.gates[3 * i + 1]));
    out.sigmoid.push_back(c.gates[3 * i]);
    out.elu.push_back(c.gates[3 * i + 2]);
  }
  std::ranges::fill(c.weight.values(), T{0});
  c.bias[0] = -std::numeric_limits<T>::infinity();
  c.bias[1] = T{1000};
  c.bias[2] = T{0};
  std::ranges::fill(c.x.values(), T{0});
  std::ranges::copy(values, c.c0.data());
  c.forward();
  out.tanh.assign(c.hidden.data(), c.hidden.data() + n);
  return out;
}

/// Distance to `exact` in units of the last place of T at that value.
template <typename T>
double ulps(T value, long double exact) {
  const T rounded = static_cast<T>(exact);
  const T next = std::nextafter(std::abs(rounded), std::numeric_limits<T>::infinity());
  const long double unit = static_cast<long double>(next) - std::abs(rounded);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / unit);
}

template <typename T>
void expect_within_ulps(const std::vector<T>& values, double limit) {
  const auto out = activations_of(values);
  double sigmoid = 0, elu = 0, tanh = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto z = static_cast<long double>(values[i]);
    sigmoid = std::max(sigmoid, ulps(out.sigmoid[i], 1 / (1 + std::exp(-z))));
    elu = std::max(elu, ulps(out.elu[i], z > 0 ? z : std::expm1(z)));
    tanh = std::max(tanh, ulps(out.tanh[i], std::tanh(z)));
  }
  EXPECT_LE(sigmoid, limit);
  EXPECT_LE(elu, limit);
  EXPECT_LE(tanh, limit);
}

/// Magnitudes from far below 1 to far above, both signs.
template <typename T>
std::vector<T> sweep(double smallest, double largest, int count) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i) {
    const double exponent = std::log(smallest) + i * std::log(largest / smallest) / (count - 1);
    values.push_back(static_cast<T>(std::exp(exponent)));
    values.push_back(-values.back());
  }
  return values;
}

TEST(LltmActivations, AreWithinFourUlpsInFloat) {
  expect_within_ulps(sweep<float>(1e-30, 1e-3, 5000), 4);
  expect_within_ulps(sweep<float>(1e-3, 20, 60000), 4);
  expect_within_ulps(sweep<float>(20, 110, 5000), 4);
}

TEST(LltmActivations, AreWithinFourUlpsInDouble) {
  expect_within_ulps(sweep<double>(1e-200, 1e-3, 5000), 4);
  expect_within_ulps(sweep<double>(1e-3, 40, 60000), 4);
  expect_within_ulps(sweep<double>(40, 760, 5000), 4);
}

template <typename T>
void expect_known_values() {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const auto out = activations_of<T>(
      {T{0}, kInf, -kInf, std::numeric_limits<T>::quiet_NaN(), T(1e30), T(-1e30), T(100), T(-100)});
  EXPECT_EQ(out.sigmoid[0], T(0.5));
  EXPECT_EQ(out.elu[0], T{0});
  EXPECT_EQ(out.tanh[0], T{0});
  for (const std::size_t large : {1, 4}) {
    EXPECT_EQ(out.sigmoid[large], T{1});
    EXPECT_EQ(out.tanh[large], T{1});
  }
  EXPECT_EQ(out.elu[1], kInf);
  EXPECT_EQ(out.elu[4], T(1e30));
  for (const std::size_t small : {2, 5}) {
    EXPECT_EQ(out.sigmoid[small], T{0});
    EXPECT_EQ(out.elu[small], T{-1});
    EXPECT_EQ(out.tanh[small], T{-1});
  }
  for (const T nan : {out.sigmoid[3], out.elu[3], out.tanh[3]}) EXPECT_TRUE(std::isnan(nan));
  EXPECT_EQ(out.elu[6], T(100));
  EXPECT_EQ(out.elu[7], T(-1));
}

TEST(LltmActivations, HaveTheirLimitsAndPassNanOnInFloat) {
  expect_known_values<float>();
}
TEST(LltmActivations, HaveTheirLimitsAndPassNanOnInDouble) {
  expect_known_values<double>();
}

/// dL/dx when only the candidate gate sees x: (c' = c + elu(x) / 2, L = c').
float elu_gradient_at(float z) {
  LltmCase<float> c({.steps = 1, .batch = 1, .input = 1, .state = 1}, 1);
  std::ranges::fill(c.weight.values(), 0.0F);
  std::ranges::fill(c.bias.values(), 0.0F);
  c.weight[5] = 1;
  c.x[0] = z;
  c.grad_hidden[0] = c.grad_h_last[0] = 0;
  c.grad_c_last[0] = 2;
  c.run();
  return c.grad_x[0];
}

TEST(LltmActivations, SlopeOfEluIsSelectedNotMasked) {
  for (const float z : {0.0F, 1e-8F, -1e-8F, 1.0F, 88.5F, 100.0F, 1e30F}) {
    EXPECT_EQ(elu_gradient_at(z), 1.0F) << z;
  }
  EXPECT_NEAR(elu_gradient_at(-1), std::exp(-1.0F), 1e-6);
  EXPECT_EQ(elu_gradient_at(-100), 0.0F);
}

}  // namespace
}  // namespace passel::kernels::test
