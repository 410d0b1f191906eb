#include "replay_cache.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <thread>

namespace passel::detail {
namespace {

using torch::Tensor;

/// Records by keeping the computation and replays by running it again into the same
/// tensors, which is what a graph does.
class HostRecording {
 public:
  inline static int recorded = 0, replayed = 0, alive = 0, waits = 0;

  HostRecording() { ++alive; }
  HostRecording(const HostRecording&) = delete;
  HostRecording& operator=(const HostRecording&) = delete;
  ~HostRecording() { --alive; }

  TensorList record(const Computation& compute, const TensorList& inputs) {
    ++recorded;
    compute_ = compute;
    inputs_ = inputs;
    outputs_ = compute(inputs);
    for (const Tensor& output : outputs_) {
      if (output.defined()) output.fill_(-1);  // a capture computes nothing
    }
    return outputs_;
  }
  void replay() {
    ++replayed;
    copy_defined(compute_(inputs_), outputs_);
  }
  static void wait_for_last_use() { ++waits; }
  static void used() { --waits; }

 private:
  Computation compute_;
  TensorList inputs_, outputs_;
};

class ReplayCacheTest : public testing::Test {
 protected:
  void SetUp() override { HostRecording::recorded = HostRecording::replayed = 0; }

  static TensorList add(const TensorList& in) { return {in[0] + in[1], Tensor(), in[0] * 2}; }

  template <class Cache>
  static void expect_sum(Cache& cache, const std::string& key, double value) {
    const TensorList inputs = {torch::full({3}, value), torch::ones({3})};
    const TensorList out = cache.run(key, inputs, add);
    EXPECT_EQ(out[0][1].item<double>(), value + 1);
    EXPECT_FALSE(out[1].defined());
    EXPECT_EQ(out[2][2].item<double>(), 2 * value);
  }
};

TEST_F(ReplayCacheTest, RecordsWhatComesASecondTimeAndReplaysItFromThenOn) {
  ReplayCache<HostRecording> cache;
  expect_sum(cache, "a", 1);
  EXPECT_EQ(HostRecording::recorded, 0);
  expect_sum(cache, "a", 2);
  EXPECT_EQ(HostRecording::recorded, 1);
  EXPECT_EQ(HostRecording::replayed, 0);
  expect_sum(cache, "a", 3);
  expect_sum(cache, "b", 4);
  EXPECT_EQ(HostRecording::replayed, 1);
  EXPECT_EQ(HostRecording::waits, 0);
}

TEST_F(ReplayCacheTest, GivesOutputsThatTheNextReplayDoesNotChange) {
  ReplayCache<HostRecording> cache;
  expect_sum(cache, "a", 1);
  expect_sum(cache, "a", 1);
  const TensorList first = cache.run("a", {torch::full({3}, 5.0), torch::ones({3})}, add);
  expect_sum(cache, "a", 8);
  EXPECT_EQ(first[0][0].item<double>(), 6);
}

TEST_F(ReplayCacheTest, TakesInputsOfAnyStridesAndNone) {
  ReplayCache<HostRecording> cache;
  const auto first_or = [](const TensorList& in) -> TensorList {
    return {in[1].defined() ? in[0] + in[1] : in[0] * 1};
  };
  const Tensor base = torch::arange(12, torch::kFloat).view({3, 4});
  for (int i = 0; i < 4; ++i) {
    const TensorList out = cache.run("t", {base.t(), Tensor()}, first_or);
    EXPECT_TRUE(torch::equal(out[0], base.t())) << i;
    const TensorList sum = cache.run("e", {base, torch::ones({}).expand({3, 4})}, first_or);
    EXPECT_TRUE(torch::equal(sum[0], base + 1)) << i;
  }
}

TEST_F(ReplayCacheTest, ForgetsTheRecordingThatWasNotUsedLongest) {
  {
    ReplayCache<HostRecording, 2> cache;
    for (const char* key : {"a", "a", "b", "b", "a", "c", "c"}) expect_sum(cache, key, 1);
    EXPECT_EQ(cache.recordings(), 2U);
    EXPECT_EQ(HostRecording::alive, 2);
    HostRecording::replayed = 0;
    expect_sum(cache, "a", 1);
    expect_sum(cache, "c", 1);
    EXPECT_EQ(HostRecording::replayed, 2);
    expect_sum(cache, "b", 1);
    EXPECT_EQ(HostRecording::replayed, 2);
  }
  EXPECT_EQ(HostRecording::alive, 0);
}

TEST_F(ReplayCacheTest, StaysSmallWhenNoKeyComesTwice) {
  ReplayCache<HostRecording, 1> cache;
  for (int i = 0; i < 500; ++i) expect_sum(cache, std::to_string(i), i);
  EXPECT_LE(cache.keys(), 65U);
}

TEST_F(ReplayCacheTest, GoesOnWithoutARecordingThatFails) {
  ReplayCache<HostRecording> cache;
  int calls = 0;
  const auto compute = [&calls](const TensorList& in) -> TensorList {
    if (++calls == 3) throw std::runtime_error("cannot be captured");
    return {in[0] + 1};
  };
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(cache.run("a", {torch::full({1}, 1.0 * i)}, compute)[0].item<double>(), i + 1);
  }
  EXPECT_EQ(cache.recordings(), 0U);
}

TEST_F(ReplayCacheTest, MayBeUsedByThreadsAtOnce) {
  ReplayCache<HostRecording> cache;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 100; ++i) expect_sum(cache, "shared", 100 * t + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(HostRecording::recorded, 1);
}

}  // namespace
}  // namespace passel::detail
