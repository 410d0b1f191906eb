#include <memory>

#include "kill_sweep.h"
#include "shm/commit_ring_scene.h"

namespace passel::shm {
namespace {

using test::CommitScene;
using test::KillSweep;
using test::serial_state;

constexpr std::uint32_t kDead = 1;
constexpr std::uint32_t kParent = 0;

/// What the parent does after a death: it has the dead one's ticket computed again where it was not
/// published, and commits what is there.
void recover(const CommitScene& scene, std::int64_t ticket) {
  scene.ring.bury(kDead);
  if (!scene.ring.entry(ticket)) scene.publish(ticket);
  scene.help(kParent);
}

/// The state is that of the tickets in order, and the ring serves those who live on.
void expect_serial(const CommitScene& scene, std::int64_t tickets) {
  ASSERT_EQ(scene.ring.committed(), tickets);
  ASSERT_EQ(scene.state(tickets), serial_state(tickets));
  scene.publish(tickets);
  ASSERT_TRUE(scene.help(kParent));
  ASSERT_EQ(scene.state(tickets + 1), serial_state(tickets + 1));
}

TEST_F(KillSweep, OfPublishAndCommitGivesTheSameStateAsIfNobodyHadDied) {
  sweep([] { return std::make_unique<CommitScene>(); },
        [](const auto& scene) {
          scene->publish(0);
          scene->help(kDead);
        },
        [](const auto& scene, bool finished) {
          EXPECT_GE(scene->ring.committed(), finished ? 1 : 0);
          recover(*scene, 0);
          expect_serial(*scene, 1);
        });
}

TEST_F(KillSweep, OfACommitOfSeveralTicketsLeavesEachWholeOrToBeDoneAgain) {
  sweep(
      [] {
        auto scene = std::make_unique<CommitScene>();
        scene->publish(1);
        scene->publish(2);
        return scene;
      },
      [](const auto& scene) {
        scene->publish(0);
        scene->help(kDead);
      },
      [](const auto& scene, bool finished) {
        EXPECT_EQ(scene->state(scene->ring.committed()), serial_state(scene->ring.committed()));
        EXPECT_GE(scene->ring.committed(), finished ? 3 : 0);
        recover(*scene, 0);
        expect_serial(*scene, 3);
      });
}

// Who sleeps until the ticket is committed does it itself when the parent has removed the dead.
TEST_F(KillSweep, OfACommitterLeavesItsWorkToThoseWhoWaitForIt) {
  sweep(
      [] {
        auto scene = std::make_unique<CommitScene>();
        auto sleeper = std::make_unique<test::Sleeper>([&scene = *scene] {
          const auto committed = [&] {
            if (scene.ring.needs_help()) scene.help(2);
            return scene.ring.committed() >= 1;
          };
          EXPECT_TRUE(scene.ring.bell().wait(committed, test::patience(), 0));
        });
        return std::pair(std::move(scene), std::move(sleeper));
      },
      [](auto& pair) {
        pair.first->publish(0);
        pair.first->help(kDead);
      },
      [](auto& pair, bool) {
        pair.first->ring.bury(kDead);
        if (!pair.first->ring.entry(0)) pair.first->publish(0);
        pair.first->ring.bell().wake_all();
        pair.second->join();
        expect_serial(*pair.first, 1);
      });
}

}  // namespace
}  // namespace passel::shm
