#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "leftovers.h"
#include "passel/shm/process_context.h"
#include "passel/shm/worker.h"

namespace passel::shm {
namespace {

using namespace std::chrono_literals;
using test::Team;

struct Board {
  std::atomic<std::uint32_t> ready;
  std::atomic<std::uint32_t> stopping;  ///< workers that saw the stop
  std::atomic<std::uint32_t> finished;  ///< workers that returned
  std::atomic<int> signal;              ///< of the Interrupted that the inner parent caught
  std::atomic<std::uint32_t> failures;
  Doorbell bell;

  void count(std::atomic<std::uint32_t>& what) {
    what.fetch_add(1);
    bell.wake_all();
  }
  bool comes_to(const std::atomic<std::uint32_t>& what, std::uint32_t value) {
    return bell.wait([&] { return what.load() >= value; }, test::patience());
  }
};

/// Returns as soon as it sees the stop.
void signal_leaf_obeys(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  board->count(board->ready);
  board->bell.wait([&] { return context.stop_requested(); }, kNoDeadline);
  board->count(board->finished);
}
PASSEL_ENTRY(signal_leaf_obeys);

/// Under a name of its own: tests may run at the same time.
void signal_leaf_orphaned(WorkerContext& context) {
  signal_leaf_obeys(context);
}
PASSEL_ENTRY(signal_leaf_orphaned);

/// Sees the stop and goes on for ever.
void signal_leaf_refuses(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  board->count(board->ready);
  board->bell.wait([&] { return context.stop_requested(); }, kNoDeadline);
  board->count(board->stopping);
  for (;;) ::pause();
}
PASSEL_ENTRY(signal_leaf_refuses);

/// A parent in a process of its own. It copies what it sees to the outer board.
void run_inner_parent(WorkerContext& outer, const std::string& entry, SpawnSettings settings) {
  init(0, nullptr);  // a parent like any other: its stop signals are read by its supervisor
  auto* report = outer.arena.get<Board>("board");
  Arena arena = Arena::create("inner", 1 << 20);
  auto* board = arena.construct<Board>("board");
  ProcessContext context(arena, entry, settings, {.on_change = [&] { board->bell.wake_all(); }});
  context.start();
  board->comes_to(board->ready, settings.nprocs);
  report->count(report->ready);
  std::thread watcher([&] {
    if (board->comes_to(board->stopping, settings.nprocs)) report->count(report->stopping);
  });
  try {
    context.join();
  } catch (const Interrupted& interrupted) {
    report->signal.store(interrupted.signal());
  }
  board->stopping.store(settings.nprocs);
  board->bell.wake_all();
  watcher.join();
  report->failures.store(static_cast<std::uint32_t>(context.failures().size()));
  report->finished.store(board->finished.load());
}

void signal_parent_of_obedient(WorkerContext& outer) {
  run_inner_parent(outer, "signal_leaf_obeys", {.nprocs = 2, .on_death = OnDeath::kRespawn});
}
PASSEL_ENTRY(signal_parent_of_obedient);

void signal_parent_of_orphans(WorkerContext& outer) {
  run_inner_parent(outer, "signal_leaf_orphaned", {.nprocs = 2});
}
PASSEL_ENTRY(signal_parent_of_orphans);

/// The grace is longer than any test: only a second signal ends it.
void signal_parent_of_stubborn(WorkerContext& outer) {
  run_inner_parent(outer, "signal_leaf_refuses", {.nprocs = 2, .grace = std::chrono::hours(1)});
}
PASSEL_ENTRY(signal_parent_of_stubborn);

void signal_parent_with_grace(WorkerContext& outer) {
  run_inner_parent(outer, "signal_leaf_refuses", {.nprocs = 2, .grace = 100ms});
}
PASSEL_ENTRY(signal_parent_with_grace);

class SignalTest : public ::testing::Test {
 protected:
  void start(const std::string& entry) {
    team_.emplace(arena_, Supervisor::Options{.entry = entry});
    team_->supervisor.spawn(0);
    ASSERT_TRUE(board_->comes_to(board_->ready, 1));
  }
  void send(int number) { ASSERT_TRUE(team_->supervisor.kill(0, number)); }
  void expect_clean_end() {
    const WorkerExit exit = team_->next_exit();
    EXPECT_FALSE(exit.failed()) << exit.describe();
  }

  Arena arena_ = Arena::create("test", 1 << 20);
  Board* board_ = arena_.construct<Board>("board");
  std::optional<Team> team_;
};

TEST_F(SignalTest, TheFirstOneToTheParentStopsItsWorkersInOrder) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    board_->ready.store(0);
    team_.reset();
    arena_ = Arena::create("test", 1 << 20);
    board_ = arena_.construct<Board>("board");
    start("signal_parent_of_obedient");
    send(number);
    expect_clean_end();
    EXPECT_EQ(board_->signal.load(), number);
    EXPECT_EQ(board_->finished.load(), 2U);
    EXPECT_EQ(board_->failures.load(), 0U);
  }
}

TEST_F(SignalTest, TheSecondOneToTheParentKillsItsWorkers) {
  start("signal_parent_of_stubborn");
  send(SIGINT);
  ASSERT_TRUE(board_->comes_to(board_->stopping, 1));
  send(SIGTERM);
  expect_clean_end();
  EXPECT_EQ(board_->signal.load(), SIGINT) << "the first one decided";
  EXPECT_EQ(board_->finished.load(), 0U);
}

TEST_F(SignalTest, WorkersThatDoNotStopAreKilledAfterTheGrace) {
  start("signal_parent_with_grace");
  send(SIGHUP);
  expect_clean_end();
  EXPECT_EQ(board_->signal.load(), SIGHUP);
  EXPECT_EQ(board_->finished.load(), 0U);
}

TEST_F(SignalTest, SigkillOfTheParentLeavesNoWorker) {
  start("signal_parent_of_orphans");
  EXPECT_EQ(test::running("signal_leaf_orphaned"), 2U);
  send(SIGKILL);
  EXPECT_EQ(team_->next_exit().code, SIGKILL);
  EXPECT_TRUE(test::gone("signal_leaf_orphaned"));
}

}  // namespace
}  // namespace passel::shm
