// SIGKILL at every single instruction of put and get, then a survivor that has to go on.
#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "passel/shm/queue.h"
#include "support.h"

namespace passel::shm {
namespace {

struct Entry {
  std::array<std::uint64_t, 4> word;

  static Entry of(std::uint64_t value) { return {{value, value, value, value}}; }
  bool operator==(const Entry&) const = default;
};
using Queue = SimpleQueue<Entry>;

constexpr std::uint64_t kCapacity = 4;
constexpr int kMaxSteps = 2000;

enum class Stop { kKilled, kFinished, kForbidden };

/// Runs `operation` in a forked process for `steps` instructions and kills it there. A fork is
/// good enough here: the operations take no lock and no memory.
Stop run_and_kill(const std::function<void()>& operation, int steps) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    operation();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return Stop::kForbidden;
  for (int i = 0; i < steps; ++i) {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) return Stop::kFinished;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return Stop::kKilled;
}

/// A queue that holds the entries 1 to `filled`.
struct Scene {
  explicit Scene(std::uint64_t filled, std::uint32_t capacity = kCapacity)
      : queue(Queue::create(arena, "queue", {.producers = 1, .capacity = capacity})) {
    for (std::uint64_t i = 1; i <= filled; ++i) producer.try_put(Entry::of(i));
  }

  /// Leaves the flags of sleepers up, so that the steps lead through the wake-up too.
  void raise_sleeper_flags() {
    if (producer.full()) (void)producer.put(Entry::of(0), Clock::now());
    (void)queue.doorbell().wait([] { return false; }, Clock::now(), 0);
  }

  Arena arena = Arena::create("sweep", 1 << 14);
  Queue queue;
  Queue::Producer producer = queue.producer(0);
  Queue::Consumer consumer = queue.consumer();
};

/// Takes all entries with a new consumer; they must be whole and count on from `first` or, where
/// an entry may have gone with the dead, from `first` + 1. Returns the range [from, to).
std::pair<std::uint64_t, std::uint64_t> drain(const Scene& scene, std::uint64_t first) {
  auto consumer = scene.queue.consumer();
  Entry entry{};
  std::uint64_t from = 0;
  std::uint64_t next = 0;
  while (consumer.try_get(entry) == QueueStatus::kOk) {
    if (from == 0) next = from = entry.word[0];
    EXPECT_EQ(entry, Entry::of(next)) << "torn or out of order";
    ++next;
  }
  EXPECT_TRUE(from == 0 || from == first || from == first + 1) << from;
  return {from, next};
}

/// The whole capacity serves the next owners.
void expect_usable(const Scene& scene) {
  auto producer = scene.queue.producer(0);
  auto consumer = scene.queue.consumer();
  Entry entry{};
  for (std::uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_EQ(producer.put(Entry::of(100 + i), test::patience()), QueueStatus::kOk);
  }
  ASSERT_EQ(producer.try_put(Entry::of(0)), QueueStatus::kFull);
  for (std::uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_EQ(consumer.get(entry, test::patience()), QueueStatus::kOk);
    ASSERT_EQ(entry, Entry::of(100 + i));
  }
}

class KillSweep : public ::testing::Test {
 protected:
  /// Tracer and tracee take turns: on one processor a step costs a quarter.
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  void TearDown() override { ::sched_setaffinity(0, sizeof(before_), &before_); }

  /// Kills at instruction 0, 1, 2 ... until the operation comes to its end.
  /// @param check what the survivor finds; is told whether the operation ended by itself
  template <class Setting, class Operation, class Check>
  void sweep(Setting&& setting, Operation&& operation, Check&& check) {
    for (int steps = 0; steps < kMaxSteps; ++steps) {
      auto scene = setting();
      const Stop stop = run_and_kill([&] { operation(scene); }, steps);
      if (stop == Stop::kForbidden) {
        std::printf("skipped: ptrace is forbidden here (a container profile?)\n");
        GTEST_SKIP() << "ptrace is forbidden here";
      }
      check(scene, stop == Stop::kFinished);
      if (HasFailure()) FAIL() << "killed after " << steps << " instructions";
      if (stop == Stop::kFinished) {
        std::printf("%d kill points\n", steps);
        return;
      }
    }
    FAIL() << "the operation did not end within " << kMaxSteps << " instructions";
  }

 private:
  cpu_set_t before_;
};

TEST_F(KillSweep, OfPutPublishesTheWholeEntryOrNothing) {
  bool published_before = false;
  sweep(
      [] {
        Scene scene(2);
        scene.raise_sleeper_flags();
        return scene;
      },
      [](Scene& scene) { scene.producer.put(Entry::of(3)); },
      [&](const Scene& scene, bool finished) {
        scene.queue.reset_producer(0);
        const auto [from, to] = drain(scene, 1);
        EXPECT_EQ(from, 1U);
        const bool published = to == 4;
        EXPECT_TRUE(published || to == 3) << to;
        EXPECT_GE(published, published_before) << "what was published came back out";
        EXPECT_GE(published, finished);
        published_before = published;
        expect_usable(scene);
      });
}

TEST_F(KillSweep, OfGetLosesNoEntryBehindTheOneInHand) {
  sweep(
      [] {
        Scene scene(kCapacity);
        scene.raise_sleeper_flags();
        return scene;
      },
      [](Scene& scene) {
        Entry entry{};
        scene.consumer.get(entry);
      },
      [](const Scene& scene, bool finished) {
        const auto [from, to] = drain(scene, 1);
        EXPECT_EQ(to, kCapacity + 1);
        EXPECT_TRUE(!finished || from == 2U) << from;
        expect_usable(scene);
      });
}

TEST_F(KillSweep, OfAPutThatFindsNoRoomChangesNothing) {
  sweep([] { return Scene(kCapacity); },
        [](Scene& scene) { scene.producer.put(Entry::of(9), Clock::now(), 0); },
        [](const Scene& scene, bool) {
          scene.queue.reset_producer(0);
          EXPECT_EQ(drain(scene, 1), std::pair(std::uint64_t{1}, kCapacity + 1));
          expect_usable(scene);
        });
}

TEST_F(KillSweep, OfAGetThatFindsNothingChangesNothing) {
  sweep([] { return Scene(0); },
        [](Scene& scene) {
          Entry entry{};
          scene.consumer.get(entry, Clock::now(), 0);
        },
        [](const Scene& scene, bool) {
          EXPECT_EQ(drain(scene, 0).first, 0U);
          expect_usable(scene);
        });
}

TEST_F(KillSweep, OfCloseLeavesAQueueThatCanBeClosedAgain) {
  sweep([] { return Scene(1); }, [](Scene& scene) { scene.queue.close(); },
        [](const Scene& scene, bool finished) {
          EXPECT_TRUE(!finished || scene.queue.closed());
          EXPECT_EQ(drain(scene, 1), std::pair(std::uint64_t{1}, std::uint64_t{2}));
          scene.queue.close();
          auto consumer = scene.queue.consumer();
          Entry entry{};
          EXPECT_EQ(consumer.get(entry, test::patience()), QueueStatus::kClosed);
          scene.queue.reset();
          expect_usable(scene);
        });
}

/// A getter in another thread, asleep.
class Sleeper {
 public:
  explicit Sleeper(const Queue& queue)
      : thread_([this, consumer = queue.consumer()]() mutable {
          id_.store(::gettid());
          status_ = consumer.get(entry_, test::patience());
        }) {
    while (id_.load() == 0 || state() != 'S') std::this_thread::yield();
  }

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    if (thread_.joinable()) thread_.join();
  }

  /// Waits until it has woken up and got an entry.
  Entry entry() {
    thread_.join();
    EXPECT_EQ(status_, QueueStatus::kOk);
    return entry_;
  }

 private:
  [[nodiscard]] char state() const {
    std::ifstream in("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
    std::string text;
    std::getline(in, text);
    const auto end = text.rfind(") ");
    return end == std::string::npos ? '?' : text[end + 2];
  }

  std::atomic<pid_t> id_{0};
  Entry entry_{};
  QueueStatus status_ = QueueStatus::kEmpty;
  std::thread thread_;
};

struct SceneWithSleeper : Scene {
  SceneWithSleeper() : Scene(0, 1), sleeper(std::make_unique<Sleeper>(queue)) {}

  std::unique_ptr<Sleeper> sleeper;
};

/// Between the publishing store and the ring the dead owes the sleeper a wake-up.
TEST_F(KillSweep, OfPutLeavesNoSleeperBehind) {
  sweep([] { return SceneWithSleeper(); }, [](Scene& scene) { scene.producer.put(Entry::of(1)); },
        [](SceneWithSleeper& scene, bool) {
          // Published and not yet taken: nobody rings again, the sleeper's own slices have to do.
          // Otherwise a successor puts, which is its first entry or one too many.
          auto successor = scene.queue.producer(0);
          if (!successor.full()) (void)successor.try_put(Entry::of(1));
          EXPECT_EQ(scene.sleeper->entry(), Entry::of(1));
        });
}

}  // namespace
}  // namespace passel::shm
