// Buffers to workers and back under random SIGKILLs.
#include <deque>
#include <random>

#include "scene.h"
#include "shm/random_kills.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::word;

constexpr std::uint32_t kWorkers = 3;
constexpr std::uint64_t kWords = 512;
const std::uint64_t kSends = testing::stress_size(1000, 10'000);
const std::uint64_t kKills = testing::stress_size(30, 400);

/// Checks each buffer on the device, adds 1 to all of it, and sends it back.
void gpu_storm_adds(WorkerContext& context) {
  const test::End self(context);
  auto in = self.queue(context, "in " + std::to_string(context.slot));
  auto out = self.queue(context, "out");
  self.for_each(in, [&](std::uint64_t number, DeviceBuffer& buffer) {
    fake_cuda::launch(self.stream, [number, at = buffer.data()] {
      for (std::uint64_t i = 0; i < kWords; ++i) {
        std::uint64_t& value = (&word(at))[i];
        value = value == number ? value + 1 : 0;
      }
    });
    test::require(out.put(number, buffer, self.stream));
  });
  self.finish();
}
PASSEL_ENTRY(gpu_storm_adds);

class Storm : public test::Scene {
 protected:
  /// A buffer that came back, until its check on the device is done.
  struct Check {
    std::uint64_t number;
    DeviceBuffer buffer;
    std::atomic<int> verdict{0};  ///< 1: whole, 2: torn
  };

  void send() {
    DeviceBuffer buffer;
    if (exchange_->allocate(kWords * 8, stream_, buffer) != DeviceStatus::kOk) return;
    fake_cuda::fill(stream_, buffer.data(), kWords, sent_ + 1, std::chrono::microseconds(50));
    const auto worker = random_() % kWorkers;
    if (queues_[worker]->put(sent_ + 1, buffer, stream_, kNow) == DeviceStatus::kOk) ++sent_;
  }

  void receive() {
    DeviceBuffer buffer;
    std::uint64_t number = 0;
    const DeviceStatus status = queues_[kWorkers]->get(number, buffer, stream_, kNow);
    if (status == DeviceStatus::kTimeout) return;
    if (status == DeviceStatus::kLost) {
      ++lost_;
      return;
    }
    ASSERT_EQ(status, DeviceStatus::kOk) << to_string(status);
    auto& check = checks_.emplace_back();
    check.number = number;
    check.buffer = std::move(buffer);
    fake_cuda::launch(stream_, [&check, number, at = check.buffer.data()] {
      bool whole = true;
      for (std::uint64_t i = 0; i < kWords; ++i) whole = whole && (&word(at))[i] == number + 1;
      check.verdict.store(whole ? 1 : 2);
    });
  }

  void settle_checks() {
    while (!checks_.empty() && checks_.front().verdict.load() != 0) {
      Check& check = checks_.front();
      if (exchange_->check(check.buffer) == DeviceStatus::kLost) {
        ++lost_;
      } else {
        torn_ += check.verdict.load() == 2;
        ++returned_;
      }
      checks_.pop_front();
    }
  }

  void bury_dead(bool respawn) {
    while (const auto event = team_->supervisor.poll()) {
      const auto& exit = std::get<WorkerExit>(*event);
      kills_.note(exit, !respawn);
      bury(exit.slot + 1);
      if (respawn) {
        team_->supervisor.spawn(exit.slot);
      } else {
        ++ended_;
      }
    }
  }

  std::mt19937 random_{47};
  std::deque<Check> checks_;
  std::uint64_t sent_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t torn_ = 0;
  std::uint32_t ended_ = 0;
  test::RandomKills kills_{48, std::chrono::milliseconds(20)};
};

TEST_F(Storm, EndsWithAllMemoryHandlesAndEventsAsAtTheStart) {
  create({.processes = kWorkers + 1, .region_bytes = 16 * kWords * 8, .chunks = 64, .events = 16});
  for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
    add_queue("in " + std::to_string(slot), slot + 1);
  }
  add_queue("out", 0);
  const auto before = fake_cuda::totals();
  spawn(kWorkers, "gpu_storm_adds");
  const Deadline deadline = after(std::chrono::minutes(testing::stress_size(2, 10)));
  while (sent_ < kSends || kills_.kills() < kKills) {
    ASSERT_LT(Clock::now(), deadline) << sent_ << " sent, " << returned_ << " came back";
    send();
    receive();
    settle_checks();
    if (kills_.kills() < kKills) kills_.strike(team_->supervisor, kWorkers);
    bury_dead(true);
    if (HasFatalFailure()) return;
  }
  for (const auto& queue : queues_) {
    if (queue != queues_.back()) queue->close();
  }
  while (ended_ < kWorkers || !checks_.empty()) {
    ASSERT_LT(Clock::now(), deadline) << "workers do not come to their end";
    receive();
    settle_checks();
    bury_dead(false);
    if (HasFatalFailure()) return;
  }
  for (std::uint64_t former = ~0ULL; former != returned_ + lost_;) {
    former = returned_ + lost_;
    receive();
    cudaStreamSynchronize(stream_);
    settle_checks();
  }
  EXPECT_EQ(torn_, 0U);
  EXPECT_EQ(kills_.odd_ends(), 0U) << "workers ended otherwise than by SIGKILL";
  EXPECT_LE(returned_ + lost_, sent_ + kills_.deaths())
      << "a successor may get again what the dead had";
  EXPECT_GE(returned_ + 2 * kills_.deaths() + lost_, sent_ / 2);
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), 0U);
  EXPECT_EQ(fake_cuda::totals(), before);
  std::printf("%llu sent, %llu came back, %llu lost, %llu deaths\n",
              static_cast<unsigned long long>(sent_), static_cast<unsigned long long>(returned_),
              static_cast<unsigned long long>(lost_),
              static_cast<unsigned long long>(kills_.deaths()));
}

}  // namespace
}  // namespace passel::shm
