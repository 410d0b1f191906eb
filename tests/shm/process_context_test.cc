#include "passel/shm/process_context.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

#include "leftovers.h"
#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Board {
  std::atomic<std::uint32_t> ready;
  std::atomic<std::uint32_t> go;
  Doorbell bell;
};

Board& check_in(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  board->ready.fetch_add(1);
  board->bell.ring();
  return *board;
}

void wait_for_go(Board& board, std::uint32_t count) {
  board.bell.wait([&] { return board.go.load() >= count; }, kNoDeadline);
}

void context_loops(WorkerContext& context) {
  check_in(context);
  for (;;) ::pause();
}
PASSEL_ENTRY(context_loops);

void context_third_throws(WorkerContext& context) {
  Board& board = check_in(context);
  wait_for_go(board, 1);
  if (context.slot == 3) throw std::runtime_error("the third one gives up");
  for (;;) ::pause();
}
PASSEL_ENTRY(context_third_throws);

/// Both throw with SIGTERM blocked, so that the end that the first one brings cannot spare the
/// second.
void context_all_throw(WorkerContext& context) {
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &term, nullptr);
  Board& board = check_in(context);
  wait_for_go(board, 1);
  throw std::runtime_error("reason of " + std::to_string(context.slot));
}
PASSEL_ENTRY(context_all_throw);

void context_ignores_term(WorkerContext& context) {
  ::signal(SIGTERM, SIG_IGN);
  check_in(context);
  for (;;) ::pause();
}
PASSEL_ENTRY(context_ignores_term);

/// Dies until the third incarnation, which returns.
void context_third_time_lucky(WorkerContext& context) {
  check_in(context);
  if (context.incarnation < 3) ::raise(SIGKILL);
}
PASSEL_ENTRY(context_third_time_lucky);

void context_always_throws(WorkerContext&) {
  throw std::runtime_error("never works");
}
PASSEL_ENTRY(context_always_throws);

/// Slot 0 fails at once, the others wait for the word to go.
void context_first_throws(WorkerContext& context) {
  if (context.slot == 0) throw std::runtime_error("the first one gives up");
  Board& board = check_in(context);
  wait_for_go(board, 1);
}
PASSEL_ENTRY(context_first_throws);

void context_stops_in_order(WorkerContext& context) {
  Board& board = check_in(context);
  board.bell.wait([&] { return context.stop_requested(); }, kNoDeadline);
  throw Stopped("wait for more");
}
PASSEL_ENTRY(context_stops_in_order);

class ProcessContextTest : public ::testing::Test {
 protected:
  void wait_ready(std::uint32_t count) {
    ASSERT_TRUE(board_->bell.wait([&] { return board_->ready.load() >= count; }, test::patience()));
  }
  void go() {
    board_->go.fetch_add(1);
    board_->bell.wake_all();
  }
  template <class Condition>
  void come_to(Condition&& condition) {
    ASSERT_TRUE(test::comes_to(condition));
  }

  Arena arena_ = Arena::create("test", 1 << 20);
  Board* board_ = arena_.construct<Board>("board");
};

/// The failures that join() throws.
std::vector<WorkerExit> failures_of(ProcessContext& context, std::string* text = nullptr) {
  try {
    context.join();
  } catch (const WorkersFailed& failed) {
    if (text != nullptr) *text = failed.what();
    return failed.failures();
  }
  ADD_FAILURE() << "expected WorkersFailed, came nothing";
  return {};
}

bool no_process(pid_t pid) {
  return ::kill(pid, 0) == -1 && errno == ESRCH;
}

TEST_F(ProcessContextTest, EndsAllWhenOneThrowsAndSaysWhichAndWhy) {
  ProcessContext context(arena_, "context_third_throws", {.nprocs = 4});
  context.start();
  std::vector<pid_t> pids;
  for (std::uint32_t slot = 0; slot < 4; ++slot) pids.push_back(context.pid(slot));
  wait_ready(4);
  EXPECT_EQ(context.alive_count(), 4U);
  EXPECT_FALSE(context.failed());
  go();
  std::string text;
  const auto failures = failures_of(context, &text);
  ASSERT_EQ(failures.size(), 1U) << "those who were ended are no failures";
  EXPECT_EQ(failures[0].slot, 3U);
  EXPECT_EQ(failures[0].text, "the third one gives up");
  EXPECT_THAT(text, HasSubstr("worker 3"));
  EXPECT_THAT(text, HasSubstr("the third one gives up"));
  EXPECT_EQ(context.alive_count(), 0U);
  for (const pid_t pid : pids) EXPECT_TRUE(no_process(pid));
  EXPECT_TRUE(context.failed());
  EXPECT_TRUE(context.finished());
  EXPECT_THROW(context.throw_if_failed(), WorkersFailed);
}

TEST_F(ProcessContextTest, ReportsEveryFailureNotOnlyTheFirst) {
  ProcessContext context(arena_, "context_all_throw", {.nprocs = 2});
  context.start();
  wait_ready(2);
  go();
  std::string text;
  const auto failures = failures_of(context, &text);
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_NE(failures[0].slot, failures[1].slot);
  EXPECT_THAT(text, HasSubstr("reason of 0"));
  EXPECT_THAT(text, HasSubstr("reason of 1"));
  EXPECT_THAT(text, HasSubstr("1 more failed"));
}

TEST_F(ProcessContextTest, ReportsASignalAsSuch) {
  ProcessContext context(arena_, "context_loops", {.nprocs = 2});
  context.start();
  wait_ready(2);
  ASSERT_EQ(::kill(context.pid(1), SIGKILL), 0);
  const auto failures = failures_of(context);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].slot, 1U);
  EXPECT_EQ(failures[0].kind, WorkerExit::Kind::kSignalled);
  EXPECT_EQ(failures[0].code, SIGKILL);
}

TEST_F(ProcessContextTest, RespawnsWithoutACallFromTheParentsThreads) {
  ProcessContext context(arena_, "context_third_time_lucky",
                         {.nprocs = 2, .on_death = OnDeath::kRespawn});
  context.start();
  wait_ready(6);  // three incarnations of two slots, and nothing of the context was called
  context.join();
  EXPECT_FALSE(context.failed());
  EXPECT_EQ(context.respawns(), 4U);
  EXPECT_EQ(context.incarnation(0), 3U);
  EXPECT_EQ(context.incarnation(1), 3U);
  EXPECT_EQ(context.failures().size(), 4U);
}

TEST_F(ProcessContextTest, GivesUpAfterTheMostRespawns) {
  ProcessContext context(arena_, "context_always_throws",
                         {.on_death = OnDeath::kRespawn, .max_respawns = 12});
  context.start();
  std::string text;
  const auto failures = failures_of(context, &text);
  ASSERT_EQ(failures.size(), 13U);
  for (std::uint32_t i = 0; i < 13; ++i) EXPECT_EQ(failures[i].incarnation, i + 1);
  EXPECT_THAT(text, HasSubstr("12 more failed"));
  EXPECT_THAT(text, HasSubstr("12 workers have been replaced"));
  EXPECT_EQ(context.respawns(), 12U);
}

TEST_F(ProcessContextTest, LetsTheOthersFinishWhenToldSo) {
  ProcessContext context(arena_, "context_first_throws",
                         {.nprocs = 3, .on_death = OnDeath::kContinue});
  context.start();
  wait_ready(2);
  come_to([&] { return context.failures().size() == 1; });
  EXPECT_FALSE(context.failed());
  EXPECT_FALSE(context.join_for(0s));
  EXPECT_TRUE(context.alive(1));
  EXPECT_TRUE(context.alive(2));
  go();
  const auto failures = failures_of(context);
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].text, "the first one gives up");
}

TEST_F(ProcessContextTest, JoinsWithADeadline) {
  ProcessContext context(arena_, "context_first_throws", {.on_death = OnDeath::kContinue});
  EXPECT_THAT(error_of([&] { context.join(); }), HasSubstr("start() first"));
  context.start();
  EXPECT_THAT(error_of([&] { context.start(); }), HasSubstr("started before"));
  EXPECT_THROW(context.join_for(60s), WorkersFailed);
}

TEST_F(ProcessContextTest, SaysWhetherTheDeadlineOrTheEndCameFirst) {
  ProcessContext context(arena_, "context_stops_in_order", {.nprocs = 2},
                         {.on_change = [this] { board_->bell.wake_all(); }});
  context.start();
  wait_ready(2);
  EXPECT_FALSE(context.join_for(1ms));
  EXPECT_FALSE(context.finished());
  context.request_stop();
  EXPECT_TRUE(context.join_for(60s)) << "to let Stopped pass is no failure";
  EXPECT_TRUE(context.finished());
  EXPECT_FALSE(context.failed());
}

TEST_F(ProcessContextTest, TerminatesWorkersThatIgnoreSigterm) {
  ProcessContext context(arena_, "context_ignores_term", {.nprocs = 2});
  context.start();
  wait_ready(2);
  const std::vector<pid_t> pids{context.pid(0), context.pid(1)};
  const auto begin = Clock::now();
  context.terminate(500ms);
  EXPECT_GE(Clock::now() - begin, 500ms) << "SIGTERM comes first, with its grace";
  for (const pid_t pid : pids) EXPECT_TRUE(no_process(pid));
  EXPECT_TRUE(context.finished());
  context.join();
  EXPECT_TRUE(context.failures().empty()) << "what terminate() brings is no failure";
}

TEST_F(ProcessContextTest, TerminatesAndForgetsWhenDestroyed) {
  pid_t pid = 0;
  {
    ProcessContext context(arena_, "context_ignores_term", {});
    context.start();
    pid = context.pid(0);
    wait_ready(1);
  }
  EXPECT_TRUE(no_process(pid));
  Arena other = Arena::create("other", 1 << 16);
  { const ProcessContext never_started(other, "context_loops", {}); }
  EXPECT_FALSE(other.frozen());
}

TEST_F(ProcessContextTest, RefusesAnEntryThatIsNotRegisteredAndNamesThoseThatAre) {
  ProcessContext context(arena_, "context_lops", {});
  const std::string text = error_of([&] { context.start(); });
  EXPECT_THAT(text, HasSubstr("'context_lops'"));
  EXPECT_THAT(text, HasSubstr("context_loops, "));
  Arena other = Arena::create("other", 1 << 16);
  EXPECT_THAT(error_of([&] { ProcessContext(other, "context_loops", {.nprocs = 0}); }),
              HasSubstr("1 or more"));
}

TEST_F(ProcessContextTest, LeavesNoWorkerWhenOneCannotBeStarted) {
  ProcessContext context(arena_, "context_loops", {.nprocs = 2, .output = "/nonexistent/log"});
  EXPECT_THAT(error_of([&] { context.start(); }), HasSubstr("/nonexistent/log.0"));
  EXPECT_EQ(context.alive_count(), 0U);
  EXPECT_TRUE(context.finished());
}

TEST_F(ProcessContextTest, KeepsWorkersOfAThreadThatEnded) {
  ProcessContext context(arena_, "context_first_throws",
                         {.nprocs = 2, .on_death = OnDeath::kContinue});
  std::thread([&] { context.start(); }).join();
  wait_ready(1);
  EXPECT_TRUE(context.alive(1));
  go();
  EXPECT_EQ(failures_of(context).size(), 1U) << "slot 1 came to its end";
}

TEST_F(ProcessContextTest, CallsTheHooksBetweenADeathAndItsRespawn) {
  std::vector<std::string> calls;  // one thread's
  std::atomic<int> ticks{0};
  ProcessContext context(
      arena_, "context_third_time_lucky", {.on_death = OnDeath::kRespawn},
      {.on_exit =
           [&](const WorkerExit& exit, bool replaced) {
             calls.push_back(std::to_string(exit.incarnation) + (replaced ? " replaced" : " gone"));
             EXPECT_EQ(board_->ready.load(), exit.incarnation) << "its successor already runs";
             EXPECT_TRUE(no_process(exit.pid));
           },
       .on_tick = [&] { return ++ticks < 5; }});
  context.start();
  context.join();
  EXPECT_THAT(calls, ElementsAre("1 replaced", "2 replaced", "3 gone"));
  come_to([&] { return ticks.load() >= 5; });
}

TEST_F(ProcessContextTest, EndsTheRunWhenAHookThrows) {
  ProcessContext context(
      arena_, "context_third_time_lucky", {.on_death = OnDeath::kRespawn},
      {.on_exit = [](const WorkerExit&, bool) { throw std::runtime_error("the ledger is full"); }});
  context.start();
  std::string text;
  EXPECT_EQ(failures_of(context, &text).size(), 1U);
  EXPECT_THAT(text, HasSubstr("the ledger is full"));
}

TEST(ProcessContexts, CountIncarnationsOverFiftyKillsAndGiveTheirDescriptorsBack) {
  constexpr unsigned kSeed = 71;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const std::size_t descriptors = test::open_descriptors();
  {
    constexpr std::uint32_t kSlots = 3;
    Arena arena = Arena::create("test", 1 << 20);
    arena.construct<Board>("board");
    ProcessContext context(arena, "context_loops",
                           {.nprocs = kSlots, .on_death = OnDeath::kRespawn});
    context.start();
    std::array<std::uint32_t, kSlots> expected{1, 1, 1};
    for (int i = 0; i < 50; ++i) {
      const std::uint32_t slot = random() % kSlots;
      ASSERT_TRUE(context.kill(slot, SIGKILL));
      ++expected[slot];
      ASSERT_TRUE(test::comes_to([&] { return context.incarnation(slot) == expected[slot]; }));
    }
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      EXPECT_EQ(context.incarnation(slot), expected[slot]);
      EXPECT_TRUE(context.alive(slot));
    }
    EXPECT_EQ(context.respawns(), 50U);
    EXPECT_EQ(context.failures().size(), 50U);
  }
  EXPECT_EQ(test::open_descriptors(), descriptors);
}

}  // namespace
}  // namespace passel::shm
