#include "passel/train/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "data/expect_error.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using Indices = std::vector<std::int64_t>;

Indices batch(BatchPlan& plan, std::int64_t ticket) {
  Indices out;
  plan.indices(ticket, out);
  return out;
}

Indices epoch_order(BatchPlan& plan, std::int64_t epoch) {
  Indices all;
  for (std::int64_t i = 0; i < plan.tickets_per_epoch(); ++i) {
    const Indices part = batch(plan, epoch * plan.tickets_per_epoch() + i);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(BatchPlan, GivesEachSampleOncePerEpochForAnySizes) {
  std::mt19937 random(42);  // NOLINT(bugprone-random-generator-seed): repeatable
  for (int round = 0; round < 200; ++round) {
    const auto train_size = static_cast<std::int64_t>(1 + random() % 300);
    const auto batch_size = static_cast<std::int64_t>(1 + random() % 320);
    SCOPED_TRACE(std::to_string(train_size) + " samples in batches of " +
                 std::to_string(batch_size));
    BatchPlan plan(train_size, batch_size, 3, random());
    Indices expected(static_cast<std::size_t>(train_size));
    std::iota(expected.begin(), expected.end(), 0);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      Indices seen = epoch_order(plan, epoch);
      std::sort(seen.begin(), seen.end());
      ASSERT_EQ(seen, expected);
    }
  }
}

TEST(BatchPlan, CountsTicketsEpochsAndSamples) {
  BatchPlan plan(10, 4, 2, 1);
  EXPECT_EQ(plan.tickets_per_epoch(), 3);
  EXPECT_EQ(plan.tickets(), 6);
  Indices sizes;
  Indices before;
  Indices epochs;
  for (std::int64_t ticket = 0; ticket < plan.tickets(); ++ticket) {
    sizes.push_back(static_cast<std::int64_t>(batch(plan, ticket).size()));
    EXPECT_EQ(sizes.back(), plan.size_of(ticket));
    before.push_back(plan.samples_before(ticket));
    epochs.push_back(plan.epoch_of(ticket));
  }
  EXPECT_EQ(sizes, (Indices{4, 4, 2, 4, 4, 2}));
  EXPECT_EQ(before, (Indices{0, 4, 8, 10, 14, 18}));
  EXPECT_EQ(plan.samples_before(6), 20);
  EXPECT_EQ(epochs, (Indices{0, 0, 0, 1, 1, 1}));
}

TEST(BatchPlan, AnswersTicketsInAnyOrderAlike) {
  BatchPlan straight(103, 10, 4, 99);
  std::vector<Indices> expected;
  for (std::int64_t ticket = 0; ticket < straight.tickets(); ++ticket) {
    expected.push_back(batch(straight, ticket));
  }
  std::vector<std::int64_t> tickets(expected.size());
  std::iota(tickets.begin(), tickets.end(), 0);
  std::shuffle(tickets.begin(), tickets.end(), std::mt19937(7));
  BatchPlan resumed(103, 10, 4, 99);
  for (const std::int64_t ticket : tickets) {
    EXPECT_EQ(batch(resumed, ticket), expected[static_cast<std::size_t>(ticket)]);
  }
}

TEST(BatchPlan, OrdersEpochsBySeedAndEpochAlone) {
  BatchPlan plan(50, 7, 3, 5);
  BatchPlan other_batches(50, 16, 8, 5);
  BatchPlan other_seed(50, 7, 3, 6);
  EXPECT_EQ(epoch_order(plan, 1), epoch_order(other_batches, 1));
  EXPECT_NE(epoch_order(plan, 0), epoch_order(plan, 1));
  EXPECT_NE(epoch_order(plan, 0), epoch_order(other_seed, 0));
}

TEST(BatchPlan, BringsEverySampleToEveryPlaceEquallyOften) {
  const int epochs = 5000;
  BatchPlan plan(5, 5, epochs, 11);
  std::vector<int> at_first_place(5);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    ++at_first_place[static_cast<std::size_t>(batch(plan, epoch)[0])];
  }
  for (const int count : at_first_place) {
    EXPECT_NEAR(count, epochs / 5.0, 180);  // six standard deviations
  }
}

// The order of a seed is part of what a resumed run relies on.
TEST(BatchPlan, KeepsTheOrderOfASeedFromReleaseToRelease) {
  BatchPlan plan(10, 10, 2, 1);
  EXPECT_EQ(batch(plan, 0), (Indices{2, 7, 4, 6, 3, 9, 0, 8, 1, 5}));
  EXPECT_EQ(batch(plan, 1), (Indices{6, 3, 7, 9, 8, 4, 1, 2, 5, 0}));
}

TEST(BatchPlan, RefusesTicketsThatTheRunDoesNotHave) {
  BatchPlan plan(10, 4, 2, 1);
  Indices out;
  EXPECT_THROW(plan.indices(-1, out), std::out_of_range);
  EXPECT_THROW(plan.indices(6, out), std::out_of_range);
}

TEST(BatchPlan, RefusesSizesThatMakeNoSense) {
  using passel::testing::expect_error;
  expect_error<UsageError>([] { BatchPlan(0, 1, 1, 0); }, {"training samples", "not 0"});
  expect_error<UsageError>([] { BatchPlan(1, -3, 1, 0); }, {"batch size", "not -3"});
  expect_error<UsageError>([] { BatchPlan(1, 1, 0, 0); }, {"epochs", "not 0"});
  expect_error<UsageError>([] { BatchPlan(std::int64_t{1} << 33, 1, 1, 0); }, {"4294967295"});
  expect_error<UsageError>([] { BatchPlan(1000, 1, std::int64_t{1} << 60, 0); }, {"fewer epochs"});
}

TEST(BatchPlan, TakesBatchesLargerThanTheData) {
  BatchPlan plan(3, std::int64_t{1} << 62, 2, 1);
  EXPECT_EQ(plan.tickets(), 2);
  EXPECT_EQ(batch(plan, 1).size(), 3U);
}

}  // namespace
}  // namespace passel::train
