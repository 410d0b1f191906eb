// Buffers that are handed on, and buffers that outlive who made them.
#include "passel/shm_cuda/lost_ranges.h"
#include "scene.h"

namespace passel::shm {
namespace {

using test::word;

/// Adds 1 on the device, late, and hands on: from "to 1" to "to 2", from "to 2" to "to 0".
void gpu_hands_on(WorkerContext& context) {
  const test::End self(context);
  const std::uint32_t process = context.slot + 1;
  auto in = self.queue(context, "to " + std::to_string(process));
  auto out = self.queue(context, process == 1 ? "to 2" : "to 0");
  self.for_each(in, [&](std::uint64_t offset, DeviceBuffer& buffer) {
    std::uint64_t rest = 0;
    fake_cuda::fill(self.stream, &rest, 1, 0, std::chrono::microseconds(500));
    fake_cuda::launch(self.stream, [at = buffer.data()] { ++word(at); });
    test::require(out.put(offset, buffer, self.stream));
    cudaStreamSynchronize(self.stream);  // `rest` is a local
  });
  self.finish();
}
PASSEL_ENTRY(gpu_hands_on);

class Chain : public test::Scene {};

TEST_F(Chain, FromAToBToCToAKeepsTheMemoryAndEveryonesWork) {
  constexpr std::uint64_t kRounds = 50;
  create({.processes = 3, .region_bytes = 64 << 10, .chunks = 16, .events = 8});
  auto& back = add_queue("to 0", 0);
  auto& first = add_queue("to 1", 1);
  auto& second = add_queue("to 2", 2);
  spawn(2, "gpu_hands_on");
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    DeviceBuffer buffer;
    allocate(buffer, 4096);
    const std::byte* const address = buffer.data();
    fake_cuda::fill(stream_, buffer.data(), 512, 1000 * i, std::chrono::microseconds(500));
    ASSERT_EQ(first.put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
    buffer.reset();  // those who have it keep it
    DeviceBuffer returned;
    std::uint64_t number = 0;
    ASSERT_EQ(back.get(number, returned, stream_, test::patience()), DeviceStatus::kOk);
    std::uint64_t seen = 0;
    fake_cuda::launch(stream_, [&] { seen = word(returned.data()); });
    cudaStreamSynchronize(stream_);
    ASSERT_EQ(number, i);
    ASSERT_EQ(returned.data(), address);
    ASSERT_EQ(seen, 1000 * i + 2);
  }
  first.close();
  second.close();
  expect_ends(2);
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
}

/// Sends a buffer of its own and ends at once, or is killed.
void gpu_sends_and_ends(WorkerContext& context) {
  const test::End self(context);
  auto out = self.queue(context, "to 0");
  DeviceBuffer buffer;
  test::require(self.exchange->allocate(4096, self.stream, buffer));
  fake_cuda::fill(self.stream, buffer.data(), 512, 77, std::chrono::milliseconds(5));
  test::require(out.put(0, buffer, self.stream));
  self.exchange->close();
}
PASSEL_ENTRY(gpu_sends_and_ends);

TEST_F(Chain, OfASenderThatHasEndedIsReadWithItsExactValues) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 16, .events = 8});
  auto& back = add_queue("to 0", 0);
  spawn(1, "gpu_sends_and_ends");
  expect_ends(1);
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  ASSERT_EQ(back.get(number, buffer, stream_, test::patience()), DeviceStatus::kOk);
  EXPECT_EQ(exchange_->check(buffer), DeviceStatus::kOk);
  std::uint64_t seen = 0;
  fake_cuda::launch(stream_, [&] { seen = word(buffer.data()); });
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(seen, 77U);
}

/// Sends what it will never finish.
void gpu_sends_and_hangs(WorkerContext& context) {
  const test::End self(context);
  auto out = self.queue(context, "to 0");
  DeviceBuffer buffer;
  test::require(self.exchange->allocate(4096, self.stream, buffer));
  fake_cuda::launch(self.stream, [] { std::atomic<bool>(false).wait(false); });
  test::require(out.put(0, buffer, self.stream));
  test::require(out.put(1, buffer, self.stream));
  context.arena.get_array<std::atomic<std::uint64_t>>("words")[0].store(1);
  std::atomic<bool>(false).wait(false);
}
PASSEL_ENTRY(gpu_sends_and_hangs);

TEST_F(Chain, OfASenderThatWasKilledInItsWorkFreesThoseWhoWaitAndIsReportedAsLost) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 16, .events = 8});
  auto& back = add_queue("to 0", 0);
  const auto words = add_words(1);
  spawn(1, "gpu_sends_and_hangs");
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  ASSERT_EQ(back.get(number, buffer, stream_, test::patience()), DeviceStatus::kOk);
  EXPECT_EQ(exchange_->check(buffer), DeviceStatus::kOk) << "the sender may still finish it";
  ASSERT_TRUE(Doorbell().wait([&] { return words[0].load() == 1; }, test::patience()));
  team_->supervisor.kill(0, SIGKILL);
  EXPECT_EQ(team_->next_exit().code, SIGKILL);
  bury(1);
  cudaStreamSynchronize(stream_);  // would hang if nobody answered for the dead
  EXPECT_EQ(exchange_->check(buffer), DeviceStatus::kLost);
  DeviceBuffer second;
  EXPECT_EQ(back.get(number, second, stream_, test::patience()), DeviceStatus::kLost)
      << "what it sent and nobody had taken";
  EXPECT_EQ(number, 1U);
}

/// Sends what it has finished, then what it will never finish, on the same event.
void gpu_finishes_one_and_hangs(WorkerContext& context) {
  const test::End self(context);
  auto out = self.queue(context, "to 0");
  DeviceBuffer finished;
  DeviceBuffer begun;
  test::require(self.exchange->allocate(256, self.stream, finished));
  test::require(self.exchange->allocate(256, self.stream, begun));
  test::require(out.put(1, finished, self.stream));
  cudaStreamSynchronize(self.stream);
  fake_cuda::launch(self.stream, [] { std::atomic<bool>(false).wait(false); });
  test::require(out.put(0, begun, self.stream));
  test::require(out.put(2, begun, self.stream));
  context.arena.get_array<std::atomic<std::uint64_t>>("words")[0].fetch_add(1);
  std::atomic<bool>(false).wait(false);
}
PASSEL_ENTRY(gpu_finishes_one_and_hangs);

class Successors : public test::Scene {
 protected:
  struct Received {
    DeviceBuffer finished;
    DeviceBuffer begun;
  };

  /// Lets that many workers die in their work, one after another in the same place, and keeps what
  /// they sent but the last message of each.
  void die(std::size_t deaths) {
    create({.processes = 2, .region_bytes = 64 << 10, .chunks = 128, .events = 1});
    auto& back = add_queue("to 0", 0);
    const auto words = add_words(1);
    team(1, "gpu_finishes_one_and_hangs");
    for (std::size_t i = 0; i < deaths; ++i) {
      team_->supervisor.spawn(0);
      auto& received = received_.emplace_back();
      std::uint64_t number = 0;
      ASSERT_EQ(back.get(number, received.finished, stream_, test::patience()), DeviceStatus::kOk);
      ASSERT_EQ(back.get(number, received.begun, stream_, test::patience()), DeviceStatus::kOk);
      ASSERT_TRUE(Doorbell().wait([&] { return words[0].load() == i + 1; }, test::patience()));
      team_->supervisor.kill(0, SIGKILL);
      ASSERT_EQ(team_->next_exit().code, SIGKILL);
      bury(1);
      DeviceBuffer untaken;
      ASSERT_EQ(back.get(number, untaken, stream_, test::patience()), DeviceStatus::kLost);
      ASSERT_EQ(number, 2U);
    }
    cudaStreamSynchronize(stream_);
  }
  void TearDown() override {
    received_.clear();
    Scene::TearDown();
  }

  std::vector<Received> received_;
};

TEST_F(Successors, ThatDieInTheirWorkTooMakeNothingOfItFinishedOrLost) {
  die(LostRanges::kExact);
  for (const auto& received : received_) {
    EXPECT_EQ(exchange_->check(received.finished), DeviceStatus::kOk);
    EXPECT_EQ(exchange_->check(received.begun), DeviceStatus::kLost);
  }
}

TEST_F(Successors, HoweverManyDieNeverMakeFinishedWhatWasLost) {
  die(3 * LostRanges::kExact);
  for (const auto& received : received_) {
    EXPECT_EQ(exchange_->check(received.begun), DeviceStatus::kLost);
  }
  EXPECT_EQ(exchange_->check(received_.back().finished), DeviceStatus::kOk);
}

TEST_F(Chain, OfASenderThatHangsInItsWorkStopsNoCallOfThoseWhoHaveIt) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 64, .events = 2});
  auto& back = add_queue("to 0", 0);
  auto& there = add_queue("to 1", 1);
  const auto words = add_words(1);
  spawn(1, "gpu_sends_and_hangs");
  ASSERT_TRUE(Doorbell().wait([&] { return words[0].load() == 1; }, test::patience()));
  DeviceBuffer buffer;
  std::uint64_t number = 0;
  ASSERT_EQ(back.get(number, buffer, stream_, test::patience()), DeviceStatus::kOk);
  // The parent's stream stands still now, and each of these takes more events than there are.
  for (std::uint64_t i = 0; i < 10; ++i) {
    DeviceBuffer mine;
    ASSERT_EQ(exchange_->allocate(256 * (i + 1), stream_, mine), DeviceStatus::kOk);
    ASSERT_EQ(there.put(i, mine, stream_, test::patience()), DeviceStatus::kOk);
    mine.reset();
    ASSERT_EQ(exchange_->allocate(64 << 10, stream_, mine), DeviceStatus::kLent);
  }
  team_->supervisor.kill(0, SIGKILL);
  team_->next_exit();
  bury(1);
  there.abandon();
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(exchange_->check(buffer), DeviceStatus::kLost);
  buffer.reset();
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
}

TEST_F(Chain, ToAReaderThatGetsNoSuccessorGivesUpWhatWaits) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 16, .events = 8});
  auto& queue = add_queue("to 1", 1);
  DeviceBuffer buffer;
  allocate(buffer, 4096);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(queue.put(i, buffer, stream_, test::patience()), DeviceStatus::kOk);
  }
  buffer.reset();
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 4096U);
  queue.abandon();
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
  allocate(buffer, 4096);
  EXPECT_EQ(queue.put(3, buffer, stream_, test::patience()), DeviceStatus::kClosed);
}

}  // namespace
}  // namespace passel::shm
