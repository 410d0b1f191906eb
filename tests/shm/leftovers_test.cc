#include "leftovers.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <random>

#include "passel/shm/worker.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

using test::Team;

constexpr std::size_t kInnerBytes = 8 << 20;

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

/// Under a name of its own: tests may run at the same time.
void respawned_leaf(WorkerContext& context) {
  leftover_leaf(context);
}
PASSEL_ENTRY(respawned_leaf);

/// A whole parent of its own: it keeps killing and respawning until it is killed itself.
void leftover_parent(WorkerContext& context) {
  auto* outer = context.arena.get<Progress>("progress");
  Arena arena = Arena::create("inner", 2 * kInnerBytes);
  auto* inner = arena.construct<Progress>("progress");
  arena.construct_array<std::byte>("memory", kInnerBytes);
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

/// Every second parent dies somewhere in its set-up, the others in their endless kills and
/// respawns.
TEST(Leftovers, AreNoneAfterTheParentWasKilledAtRandomMoments) {
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  Arena arena = Arena::create("test", 1 << 16);
  auto* progress = arena.construct<Progress>("progress");
  Team team(arena, {.slots = 1, .entry = "leftover_parent"});
  const std::uint64_t shared_before = test::machine_shared_memory();
  const int rounds = testing::stress_size(10, 100);
  for (int round = 0; round < rounds; ++round) {
    const std::uint32_t started = progress->started.load();
    team.supervisor.spawn(0);
    if (round % 2 != 0) {
      ASSERT_TRUE(progress->bell.wait([&] { return progress->started.load() > started; },
                                      test::patience()));
    }
    // The moment is random on purpose; nothing is waited for.
    for (const Deadline end = after(std::chrono::microseconds(random() % 8000));
         Clock::now() < end;) {
      cpu_relax();
    }
    ASSERT_TRUE(team.supervisor.kill(0, SIGKILL));
    ASSERT_EQ(team.next_exit().code, SIGKILL);
    ASSERT_TRUE(test::gone("leftover_")) << "round " << round;
  }
  // One leaked arena in two rounds would be found; what others on this machine use is not ours.
  EXPECT_TRUE(test::comes_to(
      [&] { return test::machine_shared_memory() < shared_before + rounds * kInnerBytes / 2; }));
}

/// What one process of this machine could count before, during and after.
struct Belongings {
  std::size_t descriptors = test::open_descriptors();
  std::size_t mappings = test::mappings();
  std::set<std::string> shared_names = test::names_in("/dev/shm");
  std::size_t temporary_names = test::names_in("/tmp").size();
};

/// Compares after `respawns`, each of which may have leaked one thing of each kind.
void expect_no_more(const Belongings& before, int respawns) {
  EXPECT_EQ(test::open_descriptors(), before.descriptors);
  // The heap grows by some mappings (by more under AddressSanitizer), other programs make names.
  const auto noise = static_cast<std::size_t>(respawns / 2);
  EXPECT_LT(test::mappings(), before.mappings + noise);
  EXPECT_LT(test::names_in("/tmp").size(), before.temporary_names + noise);
  EXPECT_TRUE(test::comes_to([&] {
    return std::ranges::includes(before.shared_names, test::names_in("/dev/shm"));
  })) << "new names in /dev/shm";
}

TEST(Leftovers, AreNoneOfManyRespawns) {
  const Belongings at_start;
  const int respawns = testing::stress_size(100, 1000);
  {
    Arena arena = Arena::create("test", 1 << 16);
    auto* progress = arena.construct<Progress>("progress");
    Team team(arena, {.slots = 2, .entry = "respawned_leaf"});
    team.supervisor.spawn(1);
    ASSERT_TRUE(
        progress->bell.wait([&] { return progress->started.load() == 1; }, test::patience()));
    team.supervisor.spawn(0);
    const Belongings running;
    const std::uint64_t memory = test::file_memory(arena.fd());
    EXPECT_GT(memory, 0U);
    for (int i = 0; i < respawns; ++i) {
      if (i % 2 != 0) {  // the others die at any point of their start
        const std::uint32_t started = progress->started.load();
        progress->bell.wait([&] { return progress->started.load() > started; },
                            after(std::chrono::milliseconds(5)));
      }
      ASSERT_TRUE(team.supervisor.kill(0, SIGKILL));
      ASSERT_EQ(team.next_exit().incarnation, static_cast<std::uint32_t>(i + 1));
      team.supervisor.spawn(0);
    }
    EXPECT_GE(test::running("respawned_leaf"), 1U);
    expect_no_more(running, respawns);
    EXPECT_EQ(test::file_memory(arena.fd()), memory);
  }
  expect_no_more(at_start, respawns);
  EXPECT_EQ(test::running("respawned_leaf"), 0U);
}

}  // namespace
}  // namespace passel::shm
