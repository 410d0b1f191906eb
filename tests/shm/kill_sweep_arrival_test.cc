#include <algorithm>
#include <memory>

#include "kill_sweep.h"
#include "shm/arrival_ring_scene.h"

namespace passel::shm {
namespace {

using test::ArrivalScene;
using test::KillSweep;
using test::state_after;

constexpr std::uint32_t kDead = 1;
constexpr std::uint32_t kOther = 2;
constexpr std::uint32_t kParent = 0;

/// What the parent does after a death: what was handed in is committed, else the ticket is computed
/// again by somebody else.
void recover(const ArrivalScene& scene, std::int64_t ticket) {
  scene.ring.bury(kDead);
  scene.help(kParent);
  if (scene.ring.version_of(ticket)) return;
  scene.hand_in(kParent, ticket);
  scene.help(kParent);
}

/// Every ticket is committed once, the state is that of their order, and the ring serves those who
/// live on.
void expect_each_once(const ArrivalScene& scene, std::int64_t tickets) {
  auto order = scene.order();
  ASSERT_EQ(scene.state(scene.ring.committed()), state_after(order));
  std::ranges::sort(order);
  ASSERT_EQ(std::ssize(order), tickets);
  for (std::int64_t t = 0; t < tickets; ++t) ASSERT_EQ(order[static_cast<std::size_t>(t)], t);
  for (const std::uint32_t process : {kDead, kOther}) {
    ASSERT_TRUE(scene.ring.free(process));
    scene.hand_in(process, tickets + process);
    ASSERT_TRUE(scene.help(process));
  }
  ASSERT_EQ(scene.state(scene.ring.committed()), state_after(scene.order()));
}

TEST_F(KillSweep, OfAHandInAndItsCommitCommitsTheTicketOnce) {
  sweep([] { return std::make_unique<ArrivalScene>(); },
        [](const auto& scene) {
          scene->hand_in(kDead, 0);
          scene->help(kDead);
        },
        [](const auto& scene, bool finished) {
          EXPECT_GE(scene->ring.committed(), finished ? 1 : 0);
          recover(*scene, 0);
          expect_each_once(*scene, 1);
        });
}

TEST_F(KillSweep, OfACombinerLosesAndDoublesNothingOfTheOthers) {
  sweep(
      [] {
        auto scene = std::make_unique<ArrivalScene>();
        scene->hand_in(kOther, 1);
        scene->hand_in(3, 2);
        return scene;
      },
      [](const auto& scene) {
        scene->hand_in(kDead, 0);
        scene->help(kDead);
      },
      [](const auto& scene, bool) {
        recover(*scene, 0);
        expect_each_once(*scene, 3);
      });
}

TEST_F(KillSweep, OfAReaderLeavesNoVersionThatCannotBeOverwritten) {
  sweep([] { return std::make_unique<ArrivalScene>(2); },
        [](const auto& scene) {
          (void)scene->ring.read(kDead);
          scene->ring.stop_reading(kDead);
        },
        [](const auto& scene, bool) {
          scene->ring.bury(kDead);
          for (std::int64_t ticket = 0; ticket < 5; ++ticket) {
            scene->hand_in(kOther, ticket);
            ASSERT_TRUE(scene->help(kOther));
          }
          expect_each_once(*scene, 5);
        });
}

}  // namespace
}  // namespace passel::shm
