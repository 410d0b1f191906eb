#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "passel/kernels/update.h"

namespace passel::kernels {
namespace {

TEST(ClipScale, BringsALargerNormDownToTheLimit) {
  EXPECT_NEAR(clip_scale(25, 2.5) * 5, 2.5, 1e-6);
  EXPECT_NEAR(clip_scale(1e40, 1) * 1e20, 1, 1e-6);
}

TEST(ClipScale, LeavesASmallerNormAlone) {
  for (const double norm : {0.0, 1e-30, 1.0, 2.4999}) EXPECT_EQ(clip_scale(norm * norm, 2.5), 1);
}

TEST(ClipScale, OfANormThatIsNotFiniteIsZeroOrNan) {
  EXPECT_EQ(clip_scale(std::numeric_limits<double>::infinity(), 1), 0);
  EXPECT_TRUE(std::isnan(clip_scale(std::nan(""), 1)));
}

TEST(ClipScale, OfALimitOfZeroIsZero) {
  EXPECT_EQ(clip_scale(4, 0), 0);
}

}  // namespace
}  // namespace passel::kernels
