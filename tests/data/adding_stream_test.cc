#include "passel/train/adding_stream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "data/expect_error.h"
#include "data/filled_batch.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::fill;
using passel::testing::FilledBatch;

std::vector<std::int64_t> first(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

/// The sum of the marked values of each window, added up from what a model sees.
std::vector<double> sums_of_windows(const FilledBatch& batch, std::int64_t steps) {
  const std::size_t n = batch.y.size();
  std::vector<double> sums(n);
  for (std::size_t i = 0; i < n; ++i) {
    int marks = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* step = &batch.x[(static_cast<std::size_t>(t) * n + i) * 2];
      EXPECT_GE(step[0], -0.5F);
      EXPECT_LT(step[0], 0.5F);
      if (step[1] == 0) continue;
      EXPECT_EQ(step[1], 1.0F);
      sums[i] += double{step[0]};
      EXPECT_EQ(marks == 0, t < steps / 2) << "one mark in each half";
      ++marks;
    }
    EXPECT_EQ(marks, 2);
  }
  return sums;
}

TEST(AddingStream, AsksForTheSumOfAllMarkedValuesSinceTheDocumentBegan) {
  for (const std::int64_t steps : {2, 3, 20}) {
    const AddingStream data(3, steps, 5, 300, 200);
    for (const Split split : {Split::kTrain, Split::kTest}) {
      const std::int64_t n = data.size(split);
      const FilledBatch batch = fill(data, split, first(n));
      const auto sums = sums_of_windows(batch, steps);
      ASSERT_TRUE(data.begins_document(split, 0));
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (data.begins_document(split, i)) sum = 0;
        sum += sums[static_cast<std::size_t>(i)];
        ASSERT_EQ(batch.y[static_cast<std::size_t>(i)], static_cast<float>(sum)) << i;
      }
    }
  }
}

TEST(AddingStream, MakesAWindowOfItsPlaceAlone) {
  const AddingStream data(3, 20, 4, 1000, 1000);
  const AddingStream longer(3, 20, 4, 5000, 10);
  const FilledBatch one = fill(data, Split::kTrain, {7});
  const FilledBatch among = fill(longer, Split::kTrain, {900, 7, 7});
  EXPECT_EQ(one.y[0], among.y[1]);
  for (std::size_t t = 0; t < 20; ++t) EXPECT_EQ(one.x[2 * t], among.x[(3 * t + 2) * 2]);
  EXPECT_NE(one.x, fill(data, Split::kTest, {7}).x);
  EXPECT_NE(one.x, fill(data, Split::kTrain, {8}).x);
  EXPECT_NE(one.x, fill(AddingStream(4, 20, 4, 1000, 1000), Split::kTrain, {7}).x);
}

TEST(AddingStream, HasDocumentsOfTheMeanLengthThatWasAskedFor) {
  for (const std::int64_t mean : {1, 2, 8}) {
    const std::int64_t n = 20'000;
    const AddingStream data(5, 2, mean, n, 1);
    std::int64_t documents = 0;
    for (std::int64_t i = 0; i < n; ++i) documents += data.begins_document(Split::kTrain, i);
    EXPECT_NEAR(static_cast<double>(documents), static_cast<double>(n) / static_cast<double>(mean),
                6 * std::sqrt(static_cast<double>(n)));
  }
}

// What the best guess is wrong by that knows one window only: its own sum.
TEST(AddingStream, CannotBeKnownBetterWithoutMemoryThanItSays) {
  const std::int64_t n = 50'000, mean = 6;
  const AddingStream data(6, 4, mean, n, 1);
  const FilledBatch batch = fill(data, Split::kTrain, first(n));
  const auto sums = sums_of_windows(batch, 4);
  double squares = 0, product = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double rest = double{batch.y[i]} - sums[i];
    squares += rest * rest;
    product += rest * sums[i];
  }
  EXPECT_NEAR(squares / static_cast<double>(n), AddingStream::error_without_memory(mean), 0.05);
  EXPECT_NEAR(product / static_cast<double>(n), 0, 0.02) << "the window tells nothing of the rest";
}

TEST(AddingStream, RefusesWhatItDoesNotHave) {
  using passel::testing::expect_error;
  expect_error<UsageError>([] { AddingStream(0, 1, 1, 1, 1); },
                           {"adding stream", "steps", "not 1"});
  expect_error<UsageError>([] { AddingStream(0, 2, 0, 1, 1); }, {"document", "not 0"});
  expect_error<UsageError>([] { AddingStream(0, 2, 1, 0, 1); }, {"training windows", "not 0"});
  expect_error<UsageError>([] { AddingStream(0, 2, 1, 1, -1); }, {"test windows", "not -1"});
  const AddingStream data(0, 2, 3, 10, 5);
  expect_error<std::out_of_range>([&] { fill(data, Split::kTest, {5}); }, {"window 5"});
  expect_error<std::out_of_range>([&] { data.begins_document(Split::kTrain, -1); }, {"window -1"});
  expect_error<std::logic_error>([&] { data.fill(Split::kTest, {}, nullptr, {}); }, {"values"});
}

}  // namespace
}  // namespace passel::train
