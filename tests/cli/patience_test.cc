#include "patience.h"

#include <gtest/gtest.h>

namespace passel::train {
namespace {

TEST(Patience, GrowsToABoundWhileNothingGetsDone) {
  Patience patience;
  EXPECT_EQ(patience.factor(0), 1);
  for (const int expected : {2, 4, 8, 16, 32, 64, 64}) EXPECT_EQ(patience.factor(0), expected);
}

TEST(Patience, IsShortAgainAfterATicket) {
  Patience patience;
  for (int i = 0; i < 5; ++i) patience.factor(3);
  EXPECT_EQ(patience.factor(4), 1);
  EXPECT_EQ(patience.factor(4), 2);
}

}  // namespace
}  // namespace passel::train
