#include "passel/train/streams.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "data/expect_error.h"
#include "passel/train/batch_plan.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using Indices = std::vector<std::int64_t>;

/// One long sequence whose documents begin where a test says.
class Sequence final : public Dataset {
 public:
  Sequence(std::int64_t windows, std::set<std::int64_t> begins)
      : windows_(windows), begins_(std::move(begins)) {}

  SampleShape shape() const noexcept override { return {1, 1, 0}; }
  std::int64_t train_size() const noexcept override { return windows_; }
  std::int64_t test_size() const noexcept override { return windows_; }
  void load() override {}
  void fill(Split, std::span<const std::int64_t>, float*, Targets) const override {}
  bool begins_document(Split, std::int64_t index) const override { return begins_.contains(index); }

 private:
  std::int64_t windows_;
  std::set<std::int64_t> begins_;
};

struct Rows {
  Indices windows;
  std::vector<bool> fresh;
};

template <class Plan>
Rows rows_of(Plan& plan, std::int64_t batch) {
  Rows rows;
  plan.indices(batch, rows.windows);
  const auto fresh = std::make_unique<bool[]>(rows.windows.size());
  plan.fresh(batch, {fresh.get(), rows.windows.size()});
  rows.fresh.assign(fresh.get(), fresh.get() + rows.windows.size());
  return rows;
}

TEST(Streams, AreReadWindowAfterWindowFromTheFirstDocumentAfterTheirCut) {
  const Sequence data(13, {0, 4, 7, 9, 11});  // cut at 0, 3, 6 and 9
  Streams streams(data, Split::kTrain, 2, 2);
  EXPECT_EQ(streams.batches(), 6);
  EXPECT_EQ(rows_of(streams, 0).windows, (Indices{0, 4}));
  EXPECT_EQ(rows_of(streams, 1).windows, (Indices{7, 9}));
  EXPECT_EQ(rows_of(streams, 2).windows, (Indices{1, 5}));
  EXPECT_EQ(rows_of(streams, 3).windows, (Indices{8, 10}));
  EXPECT_EQ(rows_of(streams, 5).windows, (Indices{9, 11}));
  EXPECT_EQ(rows_of(streams, 0).fresh, (std::vector{true, true}));
  EXPECT_EQ(rows_of(streams, 3).fresh, (std::vector{false, false}));
  EXPECT_EQ(rows_of(streams, 5).fresh, (std::vector{true, true}));
}

TEST(Streams, BeginAtTheirCutWhereNoDocumentDoesAndWithoutAPast) {
  const Sequence data(8, {0});
  Streams streams(data, Split::kTest, 1, 2);
  EXPECT_EQ(rows_of(streams, 0).windows, (Indices{0, 4}));
  EXPECT_EQ(rows_of(streams, 0).fresh, (std::vector{true, true}));
  EXPECT_EQ(rows_of(streams, 3).windows, (Indices{3, 7}));
  EXPECT_EQ(rows_of(streams, 3).fresh, (std::vector{false, false}));
}

TEST(Streams, GoOnAtTheBeginningWhereTheSequenceEnds) {
  const Sequence data(6, {0, 5});
  Streams streams(data, Split::kTrain, 1, 2);
  EXPECT_EQ(rows_of(streams, 1).windows, (Indices{1, 0}));
  EXPECT_EQ(rows_of(streams, 1).fresh, (std::vector{false, true}));
}

TEST(Streams, MoreThanThereAreWindowsAreRefused) {
  const Sequence data(11, {0});
  EXPECT_NO_THROW(Streams(data, Split::kTrain, 1, 11));
  passel::testing::expect_error<UsageError>([&] { Streams(data, Split::kTrain, 3, 4); },
                                            {"11 windows", "3 lanes of 4", "--batch-size"});
}

TEST(BatchPlan, OfStreamsBeginsThemAnewInEveryEpoch) {
  const Sequence data(20, {0, 3, 10, 12});
  BatchPlan plan(Streams(data, Split::kTrain, 2, 2), 3);
  EXPECT_EQ(plan.tickets_per_epoch(), 10);
  EXPECT_EQ(plan.tickets(), 30);
  EXPECT_EQ(plan.batch_size(), 2);
  EXPECT_EQ(plan.size_of(29), 2);
  EXPECT_EQ(plan.samples_before(13), 26);
  EXPECT_EQ(plan.epoch_of(13), 1);
  for (std::int64_t ticket = 0; ticket < 30; ++ticket) {
    const Rows rows = rows_of(plan, ticket), first = rows_of(plan, ticket % 10);
    EXPECT_EQ(rows.windows, first.windows);
    EXPECT_EQ(rows.fresh, first.fresh);
    if (ticket % 10 < 2) {
      EXPECT_EQ(rows.fresh, (std::vector{true, true}));
    }
  }
  Indices out;
  passel::testing::expect_error<std::out_of_range>([&] { plan.indices(30, out); }, {"30 tickets"});
}

}  // namespace
}  // namespace passel::train
