#include "passel/train/learning_rate.h"

#include <gtest/gtest.h>

#include <vector>

#include "data/expect_error.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::expect_error;

// The numbers below were printed by torch 2.11.0 in Python: optimizer.param_groups[0]["lr"] before
// each step, torch.optim.SGD with lr = 0.1 and the scheduler that is named.
constexpr double kNear = 1e-15;

const BatchPlan kTenTickets(10, 1, 1, 1);
const BatchPlan kFiveEpochsOfTwo(2, 1, 5, 1);

void expect_rates(const Config& config, const BatchPlan& plan,
                  const std::vector<double>& expected) {
  const LearningRate sut(config, plan);
  for (std::size_t ticket = 0; ticket < expected.size(); ++ticket) {
    EXPECT_NEAR(sut.at(static_cast<std::int64_t>(ticket)), expected[ticket], kNear)
        << "ticket " << ticket;
  }
}

Config config_of(const std::string& schedule) {
  Config config;
  config.lr = 0.1;
  config.lr_schedule = schedule;
  return config;
}

TEST(LearningRate, IsTheSameForAllTicketsUnlessAskedOtherwise) {
  expect_rates(config_of("constant"), kTenTickets, std::vector<double>(11, 0.1));
}

TEST(LearningRate, OfStepIsThatOfStepLRCountedInEpochs) {
  Config config = config_of("step");
  config.lr_step = 2;
  config.lr_gamma = 0.5;
  // StepLR(optimizer, 2, gamma=0.5), scheduler.step() after each epoch of two tickets
  expect_rates(config, kFiveEpochsOfTwo,
               {0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025});
}

TEST(LearningRate, OfStepStaysWhereTheStepIsLongerThanTheRun) {
  Config config = config_of("step");
  config.epochs = 5;
  config.lr_step = 1'000'000;
  expect_rates(config, kFiveEpochsOfTwo, std::vector<double>(10, 0.1));
}

TEST(LearningRate, OfLinearIsThatOfLinearLR) {
  Config config = config_of("linear");
  config.lr_min = 0.01;
  // LinearLR(optimizer, 1, 0.1, 10)
  expect_rates(config, kTenTickets,
               {0.1, 0.091, 0.082, 0.073, 0.064, 0.055, 0.046, 0.037, 0.028, 0.019, 0.01});
}

TEST(LearningRate, OfCosineIsThatOfCosineAnnealingLR) {
  Config config = config_of("cosine");
  config.lr_min = 0.01;
  // CosineAnnealingLR(optimizer, 10, eta_min=0.01)
  expect_rates(config, kTenTickets,
               {0.1, 0.09779754323328192, 0.09140576474687263, 0.08145033635316129,
                0.06890576474687264, 0.05500000000000001, 0.04109423525312737, 0.028549663646838717,
                0.01859423525312737, 0.012202456766718092, 0.01});
}

TEST(LearningRate, RisesInTheWarmUpAndOnlyThenBeginsToFall) {
  Config config = config_of("cosine");
  config.lr_min = 0.01;
  config.lr_warmup = 4;
  // SequentialLR(optimizer, [LinearLR(optimizer, 1 / 5, 1, 4),
  //                          CosineAnnealingLR(optimizer, 6, eta_min=0.01)], [4])
  expect_rates(config, kTenTickets,
               {0.02, 0.04, 0.06, 0.08, 0.1, 0.09397114317029975, 0.0775, 0.055, 0.0325,
                0.01602885682970026, 0.01});
  config.lr_schedule = "linear";
  // The same with LinearLR(optimizer, 1, 0.1, 6)
  expect_rates(config, kTenTickets,
               {0.02, 0.04, 0.06, 0.08, 0.1, 0.085, 0.07, 0.055, 0.04, 0.025, 0.01});
}

TEST(LearningRate, RisesInTheWarmUpOfStepToo) {
  Config config = config_of("step");
  config.lr_gamma = 0.5;
  config.lr_warmup = 4;
  // ChainedScheduler of LinearLR(optimizer, 1 / 5, 1, 4) and StepLR(optimizer, 1, gamma=0.5)
  expect_rates(config, kFiveEpochsOfTwo, {0.02, 0.04, 0.03, 0.04, 0.025, 0.025, 0.0125});
}

TEST(LearningRate, IsTheSameWhereTheRunIsCutShort) {
  Config config = config_of("cosine");
  config.max_tickets = 3;
  const LearningRate cut(config, kTenTickets);
  config.max_tickets = 0;
  const LearningRate whole(config, kTenTickets);
  for (std::int64_t ticket = 0; ticket < 10; ++ticket) EXPECT_EQ(cut.at(ticket), whole.at(ticket));
}

TEST(LearningRate, StaysAtItsEnd) {
  Config config = config_of("cosine");
  config.lr_min = 0.01;
  EXPECT_NEAR(LearningRate(config, kTenTickets).at(15), 0.01, kNear);
}

TEST(LearningRate, RefusesAWarmUpAsLongAsTheRun) {
  Config config = config_of("constant");
  config.lr_warmup = 10;
  expect_error<UsageError>([&] { LearningRate(config, kTenTickets); },
                           {"--lr-warmup to be less than the 10 tickets"});
  config.lr_warmup = 9;
  EXPECT_NO_THROW(LearningRate(config, kTenTickets));
}

}  // namespace
}  // namespace passel::train
