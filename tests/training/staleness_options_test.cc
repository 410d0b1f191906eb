#include "passel/train/staleness_options.h"

#include <gtest/gtest.h>

#include <cmath>

namespace passel::train {
namespace {

TEST(StalenessOptions, ImpliedMomentumIsOneLessTheShareOfAWorker) {
  for (const int workers : {1, 2, 4, 10}) {
    EXPECT_NEAR(implied_momentum(workers - 1), 1 - 1.0 / workers, 1e-15);
  }
}

TEST(StalenessOptions, CorrectionTakesTheImpliedMomentumOffTheOneAskedFor) {
  Config config;
  config.momentum = 0.9;
  config.workers = 2;
  EXPECT_EQ(explicit_momentum(config), 0.9) << "unless asked for";
  config.momentum_correction = true;
  EXPECT_NEAR(explicit_momentum(config), 0.9 - 0.5, 1e-15);
  config.workers = 1;
  EXPECT_EQ(explicit_momentum(config), 0.9) << "one worker is never stale";
  config.workers = 16;
  EXPECT_EQ(explicit_momentum(config), 0) << "it is never negative";
}

TEST(StalenessOptions, CorrectionOfOrderedDependsOnTheStalenessAndNotOnTheWorkers) {
  Config config;
  config.mode = "ordered";
  config.momentum = 0.9;
  config.momentum_correction = true;
  config.staleness = 3;
  for (const int workers : {1, 2, 8}) {
    config.workers = workers;
    EXPECT_NEAR(explicit_momentum(config), 0.9 - 0.75, 1e-15);
  }
}

TEST(StalenessOptions, RateIsDividedByAPowerOfTheStaleness) {
  EXPECT_EQ(staleness_factor(0, 7), 1);
  EXPECT_EQ(staleness_factor(1, 0), 1);
  EXPECT_NEAR(staleness_factor(1, 3), 0.25, 1e-15);
  EXPECT_NEAR(staleness_factor(0.5, 3), 0.5, 1e-15);
  EXPECT_NEAR(staleness_factor(2, 1), 0.25, 1e-15);
}

}  // namespace
}  // namespace passel::train
