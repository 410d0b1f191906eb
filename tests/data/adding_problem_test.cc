#include "passel/train/adding_problem.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "data/expect_error.h"
#include "data/filled_batch.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::fill;
using passel::testing::FilledBatch;

void expect_sums_of_two_marked_values(std::int64_t steps) {
  SCOPED_TRACE(steps);
  const AddingProblem data(3, steps, 100, 10);
  std::vector<std::int64_t> indices(100);
  std::iota(indices.begin(), indices.end(), 0);
  const FilledBatch batch = fill(data, Split::kTrain, indices);
  for (std::size_t i = 0; i < 100; ++i) {
    float sum = 0;
    int marks_of_first_half = 0;
    int marks = 0;
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* step = &batch.x[(static_cast<std::size_t>(t) * 100 + i) * 2];
      ASSERT_GE(step[0], 0.0F);
      ASSERT_LT(step[0], 1.0F);
      ASSERT_TRUE(step[1] == 0.0F || step[1] == 1.0F);
      sum += step[0] * step[1];
      marks += step[1] == 1.0F ? 1 : 0;
      marks_of_first_half += step[1] == 1.0F && t < steps / 2 ? 1 : 0;
    }
    ASSERT_EQ(marks, 2);
    ASSERT_EQ(marks_of_first_half, 1);
    ASSERT_EQ(sum, batch.y[i]);
  }
}

TEST(AddingProblem, AsksForTheSumOfTwoMarkedValuesOneInEachHalf) {
  for (const std::int64_t steps : {2, 3, 7, 50}) {
    expect_sums_of_two_marked_values(steps);
  }
}

TEST(AddingProblem, MakesASampleOfSeedSplitAndIndexAlone) {
  const AddingProblem data(3, 20, 1000, 1000);
  const AddingProblem again(3, 20, 5000, 10);
  const AddingProblem other_seed(4, 20, 1000, 1000);
  const FilledBatch one = fill(data, Split::kTrain, {7});
  const FilledBatch among = fill(again, Split::kTrain, {900, 7, 7});
  EXPECT_EQ(one.y[0], among.y[1]);
  EXPECT_EQ(one.y[0], among.y[2]);
  for (std::size_t t = 0; t < 20; ++t) {
    EXPECT_EQ(one.x[2 * t], among.x[(3 * t + 1) * 2]);
  }
  EXPECT_NE(one.x, fill(data, Split::kTest, {7}).x);
  EXPECT_NE(one.x, fill(data, Split::kTrain, {8}).x);
  EXPECT_NE(one.x, fill(other_seed, Split::kTrain, {7}).x);
}

// The error of the constant guess is 1/6: what a model must beat (Le et al., section 4.1).
TEST(AddingProblem, GivesTheKnownErrorOfTheConstantGuess) {
  const std::int64_t n = 20'000;
  const AddingProblem data(5, 10, n, 1);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  double squares = 0;
  for (const float target : fill(data, Split::kTrain, indices).y) {
    squares += (target - 1.0) * (target - 1.0);
  }
  EXPECT_NEAR(squares / static_cast<double>(n), 1.0 / 6, 0.01);
}

TEST(AddingProblem, MarksEveryPlaceOfBothHalves) {
  const AddingProblem data(6, 7, 2000, 1);
  std::vector<std::int64_t> indices(2000);
  std::iota(indices.begin(), indices.end(), 0);
  const FilledBatch batch = fill(data, Split::kTrain, indices);
  std::vector<int> marks(7);
  for (std::size_t place = 0; place < batch.x.size() / 2; ++place) {
    marks[place / 2000] += batch.x[2 * place + 1] == 1.0F ? 1 : 0;
  }
  for (std::size_t t = 0; t < 7; ++t) {
    EXPECT_NEAR(marks[t], t < 3 ? 2000 / 3 : 2000 / 4, 130) << t;  // six standard deviations
  }
}

TEST(AddingProblem, RefusesWhatItDoesNotHave) {
  using passel::testing::expect_error;
  expect_error<UsageError>([] { AddingProblem(0, 1, 1, 1); }, {"steps", "not 1"});
  expect_error<UsageError>([] { AddingProblem(0, 2, 0, 1); }, {"training samples", "not 0"});
  expect_error<UsageError>([] { AddingProblem(0, 2, 1, -1); }, {"test samples", "not -1"});
  const AddingProblem data(0, 2, 10, 5);
  expect_error<std::out_of_range>([&] { fill(data, Split::kTest, {5}); }, {"sample 5"});
  expect_error<std::out_of_range>([&] { fill(data, Split::kTrain, {-1}); }, {"sample -1"});
  expect_error<std::logic_error>([&] { data.fill(Split::kTest, {}, nullptr, {}); }, {"values"});
}

}  // namespace
}  // namespace passel::train
