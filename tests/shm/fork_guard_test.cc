#include "passel/shm/fork_guard.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>

#include "passel/shm/process_context.h"
#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

struct Board {
  std::atomic<std::uint32_t> ready;
  Doorbell bell;
};

void forked_leaf(WorkerContext& context) {
  auto* board = context.arena.get<Board>("board");
  board->ready.fetch_add(1);
  board->bell.ring();
  board->bell.wait([&] { return context.stop_requested(); }, kNoDeadline);
}
PASSEL_ENTRY(forked_leaf);

/// The exit status of a forked child that runs `action`; -1 when it hangs or is killed.
int status_of_fork(const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a hang becomes a signal
    ::_exit(action());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// 0 when the call throws the error of a forked process.
int refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.what()).find("forked process") == std::string::npos ? 2 : 0;
  }
  return 1;
}

TEST(AForkedProcess, GetsAnErrorFromEveryCallAndDoesNotDisturbTheParent) {
  Arena arena = Arena::create("test", 1 << 20);
  auto* board = arena.construct<Board>("board");
  std::optional<ProcessContext> context;
  context.emplace(arena, "forked_leaf", SpawnSettings{.nprocs = 2},
                  ProcessHooks{.on_change = [&] { board->bell.wake_all(); }});
  context->start();
  ASSERT_TRUE(board->bell.wait([&] { return board->ready.load() == 2; }, test::patience()));

  const std::vector<std::function<void()>> calls{
      [&] { Arena::create("other", 1 << 16); },
      [&] { arena.add("block", 8); },
      [&] { (void)arena.find("board"); },
      [&] { context->start(); },
      [&] { context->join(); },
      [&] { context->join_for(std::chrono::seconds(1)); },
      [&] { context->terminate(); },
      [&] { context->kill(0, SIGKILL); },
      [&] { (void)context->finished(); },
      [&] { context->throw_if_failed(); },
      [&] { (void)context->pid(0); },
      [&] { (void)context->alive_count(); },
      [&] { (void)context->incarnation(0); },
      [&] { (void)context->respawns(); },
      [&] { (void)context->failures(); },
      [&] { (void)context->result<int>(0); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(status_of_fork([&] { return refused(calls[i]); }), 0) << "call " << i;
  }
  EXPECT_EQ(status_of_fork([&] {
              context->request_stop();
              context.reset();  // its destructor
              return 0;
            }),
            0);

  EXPECT_EQ(context->alive_count(), 2U);
  EXPECT_FALSE(context->join_for(std::chrono::milliseconds(1))) << "nobody was asked to stop";
  context->request_stop();
  context->join();
}

TEST(AForkedProcess, MayRunTheDestructorOfASupervisorAndExit) {
  Arena arena = Arena::create("test", 1 << 20);
  auto* board = arena.construct<Board>("board");
  std::optional<test::Team> team;
  team.emplace(arena, Supervisor::Options{.entry = "forked_leaf"});
  team->supervisor.spawn(0);
  ASSERT_TRUE(board->bell.wait([&] { return board->ready.load() == 1; }, test::patience()));
  EXPECT_EQ(status_of_fork([&] { return refused([&] { team->supervisor.spawn(0); }); }), 0);
  EXPECT_EQ(status_of_fork([&] { return refused([&] { team->supervisor.poll(); }); }), 0);
  EXPECT_EQ(status_of_fork([&] {
              team.reset();
              std::exit(0);  // and the destructors of this program's statics
              return 1;
            }),
            0);
  EXPECT_TRUE(team->supervisor.alive(0));
}

/// As daemon() does.
TEST(AForkedProcess, IsLetThroughWhenTheLibraryWasNotYetInUse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own, in which no test ran
  const auto create = [] { return refused([] { Arena::create("own", 1 << 16); }); };
  EXPECT_EXIT(std::_Exit(status_of_fork(create)), ::testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace passel::shm
