#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

#include "passel/shm/buffer_pool.h"
#include "passel/shm/queue.h"
#include "passel/shm/worker.h"
#include "random_kills.h"
#include "support.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

constexpr std::uint32_t kWorkers = 4;
constexpr std::uint32_t kBuffers = 64;
constexpr std::uint32_t kInFlight = 4;  // grants per worker
const std::uint64_t kKills = testing::stress_size(150, 3000);
const std::uint64_t kDeliveries = testing::stress_size(100'000, 2'000'000);

using Queue = SimpleQueue<Lease>;
using Buffer = std::array<std::uint64_t, 512>;

std::string grants_name(std::uint32_t slot) {
  return "grants" + std::to_string(slot);
}

std::uint64_t word(const Lease& lease, std::size_t i) {
  return lease.generation * 1'000'003ULL + lease.buffer * 512ULL + i;
}

void storm_fills_buffers(WorkerContext& context) {
  const auto buffers = context.arena.get_array<Buffer>("buffers");
  auto grants = Queue::open(context.arena, grants_name(context.slot)).consumer();
  auto done = Queue::open(context.arena, "done").producer(context.slot);
  Lease lease{};
  while (grants.get(lease) == QueueStatus::kOk) {
    if (lease.buffer >= buffers.size()) throw std::runtime_error("a grant of no buffer");
    for (std::size_t i = 0; i < 512; ++i) buffers[lease.buffer][i] = word(lease, i);
    done.put(lease);
  }
}
PASSEL_ENTRY(storm_fills_buffers);

/// The parent's side of the whole protocol, and the books to check it by.
class Storm {
 public:
  Storm() {
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) {
      grants_.push_back(
          Queue::create(arena_, grants_name(slot), {.producers = 1, .capacity = kInFlight}));
      grant_ends_.push_back(grants_.back().producer(0));
    }
    supervisor_.emplace(arena_,
                        Supervisor::Options{.slots = kWorkers,
                                            .entry = "storm_fills_buffers",
                                            .on_event = [this] { done_.doorbell().ring(); }});
    for (std::uint32_t slot = 0; slot < kWorkers; ++slot) respawn(slot);
  }

  void run() {
    while (kills_.kills() < kKills || delivered_ < kDeliveries) {
      ASSERT_TRUE(done_end_.doorbell().wait(
          [&] { return !done_end_.empty() || supervisor_->pending(); }, test::patience()))
          << "nothing moves after " << kills_.kills() << " kills and " << delivered_
          << " deliveries";
      drain();
      while (const auto event = supervisor_->poll()) bury(std::get<WorkerExit>(*event));
      for (std::uint32_t slot = 0; slot < kWorkers; ++slot) grant(slot);
      ASSERT_EQ(pool_.free() + pool_.leased() + pool_.held(), kBuffers);
      kills_.strike(*supervisor_, kWorkers);
    }
  }

  void stop() {
    for (const Queue& queue : grants_) queue.close();
    for (std::uint32_t left = kWorkers; left > 0;) {
      ASSERT_TRUE(done_.doorbell().wait([&] { return supervisor_->pending(); }, test::patience()));
      while (const auto event = supervisor_->poll()) {
        const auto& exit = std::get<WorkerExit>(*event);
        drain();
        reclaimed_ += pool_.reclaim(exit.slot, exit.incarnation);
        --left;
      }
    }
  }

  void check() {
    EXPECT_EQ(torn_, 0U);
    EXPECT_EQ(pool_.stale(), 0U);
    EXPECT_EQ(kills_.odd_ends(), 0U) << "workers ended otherwise than by SIGKILL";
    EXPECT_EQ(pool_.free(), kBuffers);
    EXPECT_EQ(granted_, delivered_ + reclaimed_) << "each grant came back or was reclaimed";
    std::vector<std::uint32_t> free;
    while (const auto lease = pool_.lease(0, 0)) free.push_back(lease->buffer);
    std::ranges::sort(free);
    EXPECT_TRUE(std::ranges::adjacent_find(free) == free.end()) << "a buffer is free twice";
    std::printf("%llu delivered, %llu kills, %llu deaths, %llu reclaimed\n",
                static_cast<unsigned long long>(delivered_),
                static_cast<unsigned long long>(kills_.kills()),
                static_cast<unsigned long long>(kills_.deaths()),
                static_cast<unsigned long long>(reclaimed_));
  }

 private:
  void respawn(std::uint32_t slot) {
    incarnation_[slot] = supervisor_->spawn(slot);
    in_flight_[slot] = 0;
    grant(slot);
  }

  void grant(std::uint32_t slot) {
    while (in_flight_[slot] < kInFlight) {
      const auto lease = pool_.lease(slot, incarnation_[slot]);
      if (!lease) return;
      ASSERT_EQ(grant_ends_[slot].try_put(*lease), QueueStatus::kOk);
      ++in_flight_[slot];
      ++granted_;
    }
  }

  void drain() {
    for (Lease lease{}; done_end_.try_get(lease) == QueueStatus::kOk;) {
      if (!pool_.accept(lease)) continue;
      const Buffer& buffer = buffers_[lease.buffer];
      for (std::size_t i = 0; i < buffer.size(); ++i) {
        if (buffer[i] != word(lease, i)) {
          ++torn_;
          break;
        }
      }
      pool_.give_back(lease);
      --in_flight_[lease.slot];
      ++delivered_;
    }
  }

  void bury(const WorkerExit& exit) {
    kills_.note(exit, false);
    drain();  // what the dead published counts
    reclaimed_ += pool_.reclaim(exit.slot, exit.incarnation);
    grants_[exit.slot].reset();
    done_.reset_producer(exit.slot);
    respawn(exit.slot);
  }

  test::RandomKills kills_{41, std::chrono::milliseconds(40)};
  Arena arena_ = Arena::create("storm", 4 << 20);
  std::span<Buffer> buffers_ = arena_.construct_array<Buffer>("buffers", kBuffers);
  Queue done_ = Queue::create(arena_, "done", {.producers = kWorkers, .capacity = kInFlight});
  Queue::Consumer done_end_ = done_.consumer();
  std::vector<Queue> grants_;
  std::vector<Queue::Producer> grant_ends_;
  BufferPool pool_{kBuffers};
  std::array<std::uint32_t, kWorkers> incarnation_{};
  std::array<std::uint32_t, kWorkers> in_flight_{};
  std::uint64_t granted_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t reclaimed_ = 0;
  std::uint64_t torn_ = 0;
  std::optional<Supervisor> supervisor_;
};

TEST(KillStorm, LosesTearsAndLeaksNothing) {
  Storm storm;
  storm.run();
  if (HasFatalFailure()) return;
  storm.stop();
  if (HasFatalFailure()) return;
  storm.check();
}

}  // namespace
}  // namespace passel::shm
