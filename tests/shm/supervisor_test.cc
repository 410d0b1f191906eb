#include "passel/shm/supervisor.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

using test::error_of;
using test::Team;
using ::testing::HasSubstr;

struct Board {
  std::atomic<std::uint32_t> ready;  ///< written last by a worker
  std::uint32_t slot;
  std::uint32_t incarnation;
  std::uint64_t sum;
  std::size_t descriptors;
  bool leads_its_group;
  bool signals_open;
  Doorbell bell;
};

std::size_t open_descriptors() {
  namespace fs = std::filesystem;
  // One of them is the iterator's own.
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()) - 1;
}

void supervised_reports(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  for (const std::uint64_t number : context.arena.get_array<std::uint64_t>("numbers")) {
    board->sum += number;
  }
  sigset_t blocked;
  ::sigemptyset(&blocked);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  board->signals_open = ::sigismember(&blocked, SIGTERM) == 0;
  board->leads_its_group = ::getpgrp() == ::getpid();
  board->descriptors = open_descriptors();
  board->slot = context.slot;
  board->incarnation = context.incarnation;
  board->ready.store(1);
  board->bell.ring();
}
PASSEL_ENTRY(supervised_reports);

void supervised_waits(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  board->ready.fetch_add(1);
  board->bell.ring();
  for (;;) ::pause();
}
PASSEL_ENTRY(supervised_waits);

void supervised_prints(WorkerContext&) {
  const char* value = std::getenv("PASSEL_TEST_VALUE");
  std::printf("value %s\n", value != nullptr ? value : "unset");
  std::fprintf(stderr, "and stderr\n");
}
PASSEL_ENTRY(supervised_prints);

class SupervisorTest : public ::testing::Test {
 protected:
  void wait_ready(std::uint32_t count) {
    ASSERT_TRUE(board_->bell.wait([&] { return board_->ready.load() >= count; }, test::patience()));
  }

  Arena arena_ = Arena::create("test", 1 << 20);
  Board* board_ = arena_.construct<Board>("board");
};

TEST_F(SupervisorTest, StartsAProcessThatSharesTheArenaAndInheritsNothingElse) {
  const auto numbers = arena_.construct_array<std::uint64_t>("numbers", 100);
  std::uint64_t sum = 0;
  for (std::uint64_t& number : numbers) sum += number = 3 + sum;
  Team team(arena_, {.slots = 3, .entry = "supervised_reports"});
  EXPECT_EQ(team.supervisor.spawn(2), 1U);
  EXPECT_EQ(team.next_exit().describe().find("status 0") == std::string::npos, false);
  EXPECT_EQ(board_->sum, sum);
  EXPECT_EQ(board_->slot, 2U);
  EXPECT_EQ(board_->incarnation, 1U);
  EXPECT_EQ(board_->descriptors, 4U) << "stdin, stdout, stderr and the arena";
  EXPECT_TRUE(board_->leads_its_group);
  EXPECT_TRUE(board_->signals_open);
  EXPECT_TRUE(arena_.frozen());
}

TEST_F(SupervisorTest, CountsIncarnationsAndKnowsWhoIsAlive) {
  Team team(arena_, {.slots = 2, .entry = "supervised_waits"});
  EXPECT_FALSE(team.supervisor.alive(0));
  EXPECT_FALSE(team.supervisor.kill(0, SIGKILL));
  for (std::uint32_t incarnation = 1; incarnation <= 3; ++incarnation) {
    EXPECT_EQ(team.supervisor.spawn(0), incarnation);
    wait_ready(incarnation);
    EXPECT_TRUE(team.supervisor.alive(0));
    const pid_t pid = team.supervisor.pid(0);
    EXPECT_EQ(::kill(pid, 0), 0);
    EXPECT_TRUE(team.supervisor.kill(0, SIGTERM));
    const WorkerExit exit = team.next_exit();
    EXPECT_EQ(exit.pid, pid);
    EXPECT_EQ(exit.incarnation, incarnation);
    EXPECT_EQ(exit.code, SIGTERM);
    EXPECT_FALSE(team.supervisor.alive(0));
  }
}

TEST_F(SupervisorTest, RefusesASlotThatIsInUseOrNotYetPolledOrNotThere) {
  Team team(arena_, {.slots = 1, .entry = "supervised_waits"});
  team.supervisor.spawn(0);
  EXPECT_THAT(error_of([&] { team.supervisor.spawn(0); }), HasSubstr("in use"));
  EXPECT_THAT(error_of([&] { team.supervisor.spawn(1); }), HasSubstr("1 slots"));
  team.supervisor.kill(0, SIGKILL);
  ASSERT_TRUE(team.bell.wait([&] { return team.supervisor.pending(); }, test::patience()));
  EXPECT_THAT(error_of([&] { team.supervisor.spawn(0); }), HasSubstr("not polled"));
  team.next_exit();
  EXPECT_EQ(team.supervisor.spawn(0), 2U);
}

TEST_F(SupervisorTest, SaysWhyAProcessCouldNotBeStarted) {
  Team team(arena_, {.slots = 1, .entry = "supervised_waits"});
  EXPECT_THAT(error_of([&] { team.supervisor.spawn(0, {.output = "/nonexistent/log"}); }),
              HasSubstr("/nonexistent/log"));
  EXPECT_EQ(team.supervisor.spawn(0), 1U) << "the slot is as free as before";
}

TEST_F(SupervisorTest, AppendsOutputToAFileAndSetsTheEnvironment) {
  std::string pattern = (std::filesystem::temp_directory_path() / "passel-out-XXXXXX").string();
  ::close(::mkstemp(pattern.data()));
  {
    Team team(
        arena_,
        {.slots = 1, .entry = "supervised_prints", .environment = {"PASSEL_TEST_VALUE=common"}});
    team.supervisor.spawn(0, {.output = pattern});
    EXPECT_FALSE(team.next_exit().failed());
    team.supervisor.spawn(0, {.output = pattern, .environment = {"PASSEL_TEST_VALUE=own"}});
    EXPECT_FALSE(team.next_exit().failed());
  }
  std::ifstream in(pattern);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::filesystem::remove(pattern);
  EXPECT_THAT(text, HasSubstr("value common"));
  EXPECT_THAT(text, HasSubstr("value own"));
  EXPECT_THAT(text, HasSubstr("and stderr"));
}

TEST_F(SupervisorTest, TurnsSignalsToTheParentIntoEvents) {
  Team team(arena_, {.slots = 1, .entry = "supervised_waits"});
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGINT}) {
    ASSERT_EQ(::kill(::getpid(), number), 0);
    EXPECT_EQ(std::get<Signal>(team.next_event()).number, number);
  }
}

TEST_F(SupervisorTest, KillsAndReapsEveryWorkerWhenDestroyed) {
  std::vector<pid_t> pids;
  {
    Team team(arena_, {.slots = 3, .entry = "supervised_waits"});
    for (std::uint32_t slot = 0; slot < 3; ++slot) {
      team.supervisor.spawn(slot);
      pids.push_back(team.supervisor.pid(slot));
    }
    wait_ready(2);  // the third may be anywhere in its start
  }
  for (const pid_t pid : pids) {
    EXPECT_EQ(::kill(pid, 0), -1);
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST(Entries, AreFoundByTheirFunction) {
  EXPECT_EQ(find_entry_name(entry_key(&supervised_waits)), "supervised_waits");
  EXPECT_EQ(find_entry_name(nullptr), "");
}

}  // namespace
}  // namespace passel::shm
