#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "passel/shm/worker.h"
#include "support.h"

namespace passel::shm {
namespace {

namespace fs = std::filesystem;
using test::Team;

struct Progress {
  std::atomic<std::uint32_t> started;
  Doorbell bell;
};

void leftover_leaf(WorkerContext& context) {
  auto* progress = context.arena.get<Progress>("progress");
  progress->started.fetch_add(1);
  progress->bell.ring();
  for (;;) ::pause();
}
PASSEL_ENTRY(leftover_leaf);

/// A whole parent of its own: it keeps killing and respawning until it is killed itself.
void leftover_parent(WorkerContext& context) {
  auto* outer = context.arena.get<Progress>("progress");
  Arena arena = Arena::create("inner", 1 << 16);
  auto* inner = arena.construct<Progress>("progress");
  Team team(arena, {.slots = 3, .entry = "leftover_leaf"});
  for (std::uint32_t slot = 0; slot < 3; ++slot) team.supervisor.spawn(slot);
  inner->bell.wait([&] { return inner->started.load() >= 3; }, kNoDeadline);
  outer->started.fetch_add(1);
  outer->bell.ring();
  for (std::uint32_t slot = 0;; slot = (slot + 1) % 3) {
    team.supervisor.kill(slot, SIGKILL);
    team.next_exit();
    team.supervisor.spawn(slot);
  }
}
PASSEL_ENTRY(leftover_parent);

std::set<std::string> names_in(const char* folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.insert(entry.path().filename());
  }
  return names;
}

std::size_t open_descriptors() {
  return names_in("/proc/self/fd").size();
}

/// Processes on this machine that run an entry whose name begins with `name`.
std::size_t running(const std::string& name) {
  std::size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    std::ifstream in(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(in), {}};
    count += line.find(std::string("--passel-worker\0", 16) + name) != std::string::npos;
  }
  return count;
}

/// A process in the middle of an exec shows no command line, so one look is not enough.
bool gone(const std::string& name) {
  int looks = 0;
  for (const Deadline deadline = test::patience(); Clock::now() < deadline && looks < 3;) {
    looks = running(name) == 0 ? looks + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // between two looks
  }
  return looks == 3;
}

TEST(Leftovers, AreNoneAfterTheParentWasKilledAtRandomMoments) {
  std::mt19937 random(31);
  Arena arena = Arena::create("test", 1 << 16);
  auto* progress = arena.construct<Progress>("progress");
  Team team(arena, {.slots = 1, .entry = "leftover_parent"});
  for (std::uint32_t round = 1; round <= 15; ++round) {
    team.supervisor.spawn(0);
    ASSERT_TRUE(
        progress->bell.wait([&] { return progress->started.load() == round; }, test::patience()));
    // Somewhere in its endless kills and respawns.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    ASSERT_TRUE(team.supervisor.kill(0, SIGKILL));
    ASSERT_EQ(team.next_exit().code, SIGKILL);
    ASSERT_TRUE(gone("leftover_")) << "round " << round;
  }
}

TEST(Leftovers, AreNoNamesInSharedMemoryAndNoDescriptors) {
  const auto names = names_in("/dev/shm");
  const std::size_t before = open_descriptors();
  {
    Arena arena = Arena::create("test", 1 << 16);
    auto* progress = arena.construct<Progress>("progress");
    Team team(arena, {.slots = 2, .entry = "leftover_leaf"});
    std::size_t running_descriptors = 0;
    team.supervisor.spawn(1);
    ASSERT_TRUE(
        progress->bell.wait([&] { return progress->started.load() == 1; }, test::patience()));
    for (std::uint32_t i = 1; i <= 51; ++i) {
      team.supervisor.spawn(0);
      if (i == 1) running_descriptors = open_descriptors();
      if (i == 51) break;
      ASSERT_TRUE(team.supervisor.kill(0, SIGKILL));  // at any point of its start
      ASSERT_EQ(team.next_exit().incarnation, i);
    }
    EXPECT_GE(running("leftover_leaf"), 1U);
    EXPECT_EQ(open_descriptors(), running_descriptors);
    EXPECT_EQ(names_in("/dev/shm"), names);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(running("leftover_leaf"), 0U);
}

}  // namespace
}  // namespace passel::shm
