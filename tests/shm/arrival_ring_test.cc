#include "passel/shm/arrival_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "shm/arrival_ring_scene.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

using test::ArrivalScene;
using test::CommitState;
using test::state_after;

TEST(ArrivalRing, CommitsInTheOrderOfArrivalAndRemembersIt) {
  const ArrivalScene scene;
  scene.hand_in(2, 7);
  EXPECT_FALSE(scene.ring.free(2));
  EXPECT_FALSE(scene.ring.settled());
  EXPECT_TRUE(scene.help(2));
  scene.hand_in(0, 3);
  scene.help(0);
  EXPECT_TRUE(scene.ring.free(2));
  EXPECT_TRUE(scene.ring.settled());
  const std::vector<std::int64_t> expected = {7, 3};
  EXPECT_EQ(scene.order(), expected);
  EXPECT_EQ(scene.state(2), state_after(expected));
  EXPECT_EQ(scene.ring.version_of(3), 1);
  EXPECT_EQ(scene.ring.version_of(4), std::nullopt);
  EXPECT_EQ(scene.ring.record(0).process, 2U);
}

TEST(ArrivalRing, PassesNobodyOver) {
  const ArrivalScene scene;
  for (std::uint32_t p = 0; p < 4; ++p) scene.hand_in(p, p);
  scene.help(0);
  EXPECT_EQ(scene.order(), (std::vector<std::int64_t>{1, 2, 3, 0}));
}

TEST(ArrivalRing, DoesNotOverwriteAVersionThatIsRead) {
  const ArrivalScene scene(3);
  EXPECT_EQ(scene.ring.read(1), 0);
  scene.hand_in(0, 0);
  EXPECT_TRUE(scene.help(0));
  scene.hand_in(0, 1);
  EXPECT_TRUE(scene.help(0));
  scene.hand_in(0, 2);
  EXPECT_FALSE(scene.help(0)) << "version 3 lies where version 0 does";
  EXPECT_FALSE(scene.ring.needs_help());
  EXPECT_EQ(scene.state(0), CommitState{});
  scene.ring.stop_reading(1);
  EXPECT_TRUE(scene.ring.needs_help());
  EXPECT_TRUE(scene.help(1));
  EXPECT_EQ(scene.ring.committed(), 3);
}

TEST(ArrivalRing, ForgetsWhatADeadReaderRead) {
  const ArrivalScene scene(2);
  EXPECT_EQ(scene.ring.read(1), 0);
  scene.hand_in(0, 0);
  scene.help(0);
  scene.hand_in(0, 1);
  EXPECT_FALSE(scene.help(0));
  scene.ring.bury(1);
  EXPECT_TRUE(scene.help(0));
}

// Each thread reads a version, looks at it twice, and adds a contribution. The states are those of
// the remembered order, and what was read was whole and stayed as it was.
TEST(ArrivalRing, GivesConsistentVersionsAndTheStateOfItsOrderWhateverTheThreadsDo) {
  constexpr std::int64_t kTickets = 60;  // fewer than are remembered
  for (int round = 0; round < 100; ++round) {
    const ArrivalScene scene(round % 3 + 2);
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::vector<std::pair<std::int64_t, CommitState>> seen;
    std::vector<std::jthread> team;
    for (std::uint32_t self = 0; self < ArrivalScene::kProcesses; ++self) {
      team.emplace_back([&, self] {
        for (std::int64_t ticket = next++; ticket < kTickets; ticket = next++) {
          const std::int64_t version = scene.ring.read(self);
          const CommitState before = scene.state(version);
          std::this_thread::yield();
          ASSERT_EQ(scene.state(version), before);
          scene.ring.stop_reading(self);
          {
            const std::lock_guard lock(mutex);
            seen.emplace_back(version, before);
          }
          const auto free = [&] {
            if (scene.ring.needs_help()) scene.help(self);
            return scene.ring.free(self);
          };
          ASSERT_TRUE(scene.ring.bell().wait(free, test::patience()));
          scene.hand_in(self, ticket);
          scene.help(self);
        }
      });
    }
    team.clear();
    scene.help(0);
    ASSERT_EQ(scene.ring.committed(), kTickets);
    const auto order = scene.order();
    for (const auto& [version, state] : seen) {
      ASSERT_EQ(state, state_after(std::span(order).first(static_cast<std::size_t>(version))));
    }
    ASSERT_EQ(scene.state(kTickets), state_after(order));
  }
}

}  // namespace
}  // namespace passel::shm
