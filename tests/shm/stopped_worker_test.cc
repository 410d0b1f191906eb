#include <signal.h>

#include <atomic>
#include <fstream>
#include <random>
#include <string>

#include "passel/shm/queue.h"
#include "passel/shm/worker.h"
#include "support.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using Queue = SimpleQueue<std::uint64_t>;

/// Sends its numbers 0, 1, 2 ... as fast as they are taken.
void stopped_worker_counts(WorkerContext& context) {
  auto done = Queue::open(context.arena, "done").producer(context.slot);
  for (std::uint64_t i = 0; done.put(i << 8 | context.slot) == QueueStatus::kOk; ++i) {
  }
}
PASSEL_ENTRY(stopped_worker_counts);

/// Stopped: every thread of it, and the kernel says so.
bool is_stopped(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  const auto end = text.rfind(") ");
  return end != std::string::npos && text[end + 2] == 'T';
}

/// Takes numbers until `count` of them are of worker `slot`; each worker's must come in order.
class Taker {
 public:
  explicit Taker(const Queue& queue) : consumer_(queue.consumer()) {}

  void take(std::uint32_t slot, std::uint64_t count) {
    for (std::uint64_t value = 0; count > 0;) {
      ASSERT_EQ(consumer_.get(value, test::patience()), QueueStatus::kOk);
      const auto from = static_cast<std::uint32_t>(value & 0xff);
      ASSERT_EQ(value >> 8, next_.at(from)++);
      count -= from == slot ? 1 : 0;
    }
  }

 private:
  Queue::Consumer consumer_;
  std::array<std::uint64_t, 3> next_{};
};

TEST(AStoppedWorker, DelaysNobodyElse) {
  constexpr unsigned kSeed = 51;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  Arena arena = Arena::create("test", 1 << 16);
  const Queue done = Queue::create(arena, "done", {.producers = 3, .capacity = 16});
  test::Team team(arena, {.slots = 3, .entry = "stopped_worker_counts"});
  for (std::uint32_t slot = 0; slot < 3; ++slot) team.supervisor.spawn(slot);
  Taker taker(done);
  const int rounds = testing::stress_size(20, 500);
  for (int round = 0; round < rounds; ++round) {
    taker.take(0, 1 + random() % 100);  // stopped at any point of a put
    ASSERT_TRUE(team.supervisor.kill(0, SIGSTOP));
    const pid_t pid = team.supervisor.pid(0);
    for (const Deadline end = test::patience(); !is_stopped(pid);) ASSERT_LT(Clock::now(), end);
    // Far more than the queue holds, so these were put while the worker stood.
    for (const std::uint32_t slot : {1U, 2U}) {
      ASSERT_NO_FATAL_FAILURE(taker.take(slot, 200)) << "round " << round;
    }
    ASSERT_TRUE(is_stopped(pid));
    ASSERT_TRUE(team.supervisor.kill(0, SIGCONT));
    ASSERT_NO_FATAL_FAILURE(taker.take(0, 50)) << "it goes on where it stood, round " << round;
  }
  ASSERT_TRUE(team.supervisor.kill(0, SIGSTOP));
  ASSERT_TRUE(team.supervisor.kill(0, SIGKILL));
  EXPECT_EQ(team.next_exit().code, SIGKILL) << "a stopped worker can be killed";
}

}  // namespace
}  // namespace passel::shm
