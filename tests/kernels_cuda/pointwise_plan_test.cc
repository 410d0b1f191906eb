#include "pointwise_plan.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

namespace passel::kernels {
namespace {

/// An address that is a multiple of `bytes` and of no larger power of two.
template <typename T>
T* at(std::uintptr_t bytes) {
  return std::bit_cast<T*>(0x7f00'0000'0000 + bytes);
}

template <typename T>
LltmPointwiseForward<T> forward(std::int64_t batch, std::int64_t state) {
  using Sum = typename SumOf<T>::type;
  return {.batch = batch,
          .state = state,
          .from_x = at<Sum>(256),
          .from_h = at<Sum>(256),
          .bias = at<T>(256),
          .cell_in = at<Sum>(256),
          .gates = at<Sum>(256),
          .cell = at<Sum>(256),
          .hidden = at<T>(256)};
}

TEST(PointwisePlan, LaunchesNothingWhereThereIsNothing) {
  EXPECT_EQ(plan_pointwise(forward<float>(0, 128)).blocks, 0);
  EXPECT_EQ(plan_pointwise(forward<float>(16, 0)).blocks, 0);
  EXPECT_EQ(plan_pointwise(forward<double>(0, 0)).blocks, 0);
}

TEST(PointwisePlan, HasAThreadForEachGroupWhileTheGridAllows) {
  for (const std::int64_t state : {1, 3, 4, 127, 128, 512, 1024}) {
    for (const std::int64_t batch : {1, 16, 64, 65'536, 70'000}) {
      const PointwisePlan plan = plan_pointwise(forward<float>(batch, state));
      const std::int64_t groups = batch * state / plan.width;
      const std::int64_t threads = plan.blocks * kPointwiseThreads;
      EXPECT_TRUE(threads >= groups || plan.blocks == kPointwiseBlocks);
      EXPECT_LT(threads - groups, kPointwiseThreads);
    }
  }
}

TEST(PointwisePlan, KeepsTheGridSmallForAnySize) {
  const std::int64_t huge = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(plan_pointwise(forward<float>(huge, 1024)).blocks, kPointwiseBlocks);
}

TEST(PointwisePlan, ReadsSixteenBytesWhereRowsAllowIt) {
  EXPECT_EQ(plan_pointwise(forward<float>(2, 128)).width, 4);
  EXPECT_EQ(plan_pointwise(forward<double>(2, 128)).width, 2);
  EXPECT_EQ(plan_pointwise(forward<Bfloat16>(2, 128)).width, 4);
  EXPECT_EQ(plan_pointwise(forward<Float16>(2, 128)).width, 4);
  EXPECT_EQ(plan_pointwise(forward<float>(2, 126)).width, 1);
  EXPECT_EQ(plan_pointwise(forward<double>(2, 126)).width, 2);
  EXPECT_EQ(plan_pointwise(forward<double>(2, 127)).width, 1);
}

TEST(PointwisePlan, ReadsElementByElementWhereAnAddressIsNotAligned) {
  auto arrays = forward<float>(2, 128);
  arrays.from_h = at<float>(8);
  EXPECT_EQ(plan_pointwise(arrays).width, 1);
  arrays = forward<float>(2, 128);
  arrays.hidden = at<float>(4);
  EXPECT_EQ(plan_pointwise(arrays).width, 1);
  auto halves = forward<Bfloat16>(2, 128);
  halves.hidden = at<Bfloat16>(8);
  EXPECT_EQ(plan_pointwise(halves).width, 4);
  halves.hidden = at<Bfloat16>(4);
  EXPECT_EQ(plan_pointwise(halves).width, 1);
}

TEST(PointwisePlan, LooksAtTheArraysOfBackwardToo) {
  LltmPointwiseBackward<float> arrays{.batch = 2,
                                      .state = 128,
                                      .gates = at<float>(256),
                                      .cell = at<float>(256),
                                      .grad_hidden = nullptr,
                                      .grad_hidden_in = nullptr,
                                      .grad_cell_in = nullptr,
                                      .grad_gates = at<float>(256),
                                      .grad_cell = at<float>(256)};
  EXPECT_EQ(plan_pointwise(arrays).width, 4);
  arrays.grad_hidden = at<float>(8);
  EXPECT_EQ(plan_pointwise(arrays).width, 1);
}

}  // namespace
}  // namespace passel::kernels
