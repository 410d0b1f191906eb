#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "each_target.h"
#include "passel/kernels/update.h"

namespace passel::kernels {
namespace {

using Values = std::vector<float>;

Values random_values(std::size_t n, std::uint32_t seed) {
  std::mt19937 engine(seed);
  Values values(n);
  for (float& v : values) v = static_cast<float>(engine()) * 0x1p-31F - 1;
  return values;
}

Values compensated(float lambda, const Values& gradient, const Values& now, const Values& then) {
  Values out(gradient.size());
  compensate_delay(lambda, gradient.data(), now.data(), then.data(), out.data(), out.size());
  return out;
}

TEST(CompensateDelay, AddsTheSquaredGradientTimesTheWayTheParametersWent) {
  for (const std::size_t n : {0, 1, 7, 16, 33, 1000}) {
    const Values g = random_values(n, 1), now = random_values(n, 2), then = random_values(n, 3);
    const Values out = compensated(0.5F, g, now, then);
    for (std::size_t i = 0; i < n; ++i) {
      const double exact = g[i] + 0.5 * g[i] * g[i] * (double{now[i]} - then[i]);
      ASSERT_NEAR(out[i], exact, 1e-6) << "element " << i << " of " << n;
    }
  }
}

TEST(CompensateDelay, LeavesAGradientAsItIsWhereTheParametersAreStillTheSame) {
  const Values g = random_values(1001, 1), now = random_values(1001, 2);
  EXPECT_EQ(compensated(3, g, now, now), g);
}

TEST(CompensateDelay, HasTheSameBitsOnEveryInstructionSet) {
  const Values g = random_values(1007, 1), now = random_values(1007, 2);
  const Values then = random_values(1007, 3);
  const Values usual = compensated(0.7F, g, now, then);
  test::with_each_target([&] { EXPECT_EQ(compensated(0.7F, g, now, then), usual); });
}

}  // namespace
}  // namespace passel::kernels
