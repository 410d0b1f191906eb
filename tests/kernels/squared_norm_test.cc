#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "each_target.h"
#include "passel/kernels/update.h"

namespace passel::kernels {
namespace {

std::vector<float> random_values(std::size_t n) {
  std::mt19937 engine(17);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(engine()) * 0x1p-31F - 1;
  return values;
}

TEST(SquaredNorm, IsTheSumOfSquares) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 31, 33, 1000, 100003}) {
    const auto values = random_values(n);
    long double exact = 0;
    for (const float v : values) exact += static_cast<long double>(v) * v;
    EXPECT_NEAR(squared_norm(values.data(), n), static_cast<double>(exact),
                1e-13 * static_cast<double>(exact));
  }
}

TEST(SquaredNorm, DoesNotOverflowWhereAFloatWould) {
  const std::vector<float> values(40, 1e30F);
  EXPECT_NEAR(squared_norm(values.data(), values.size()), 40e60, 1e55);
}

TEST(SquaredNorm, HasTheSameBitsOnEveryInstructionSet) {
  const auto values = random_values(10007);
  const double usual = squared_norm(values.data(), values.size());
  test::with_each_target([&] { EXPECT_EQ(squared_norm(values.data(), values.size()), usual); });
}

}  // namespace
}  // namespace passel::kernels
