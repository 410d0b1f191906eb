#include <algorithm>
#include <memory>

#include "kill_sweep.h"
#include "shm/lane_states_scene.h"

namespace passel::shm {
namespace {

using test::KillSweep;
using test::LaneScene;
using test::serial_lane_state;

constexpr std::uint32_t kDead = 1;
constexpr std::uint32_t kParent = 0;
constexpr std::int64_t kBefore = 4;  // tickets done: each place of each lane was written

std::unique_ptr<LaneScene> scene_with_a_past() {
  auto scene = std::make_unique<LaneScene>();
  for (std::int64_t ticket = 0; ticket < kBefore; ++ticket) {
    scene->compute(ticket);
    scene->help(kParent);
  }
  return scene;
}

void expect_serial(const LaneScene& scene, std::int64_t ticket) {
  const auto found = scene.states.find(ticket);
  ASSERT_FALSE(found.empty()) << ticket;
  ASSERT_TRUE(std::ranges::equal(found, serial_lane_state(ticket, LaneScene::kLanes))) << ticket;
}

// What the parent does after a death: the dead one's ticket is computed again where it was not
// handed in, from the very state that it had begun with.
TEST_F(KillSweep, OfATicketThatCarriesAStateGivesTheStatesOfASerialProgram) {
  sweep(
      scene_with_a_past,
      [](const auto& scene) {
        scene->compute(kBefore);
        scene->help(kDead);
      },
      [](const auto& scene, bool finished) {
        scene->ring.bury(kDead);
        const bool handed_in = scene->ring.entry(kBefore).has_value();
        EXPECT_TRUE(handed_in || !finished);
        expect_serial(*scene, kBefore - LaneScene::kLanes);
        if (handed_in || !scene->states.find(kBefore).empty()) expect_serial(*scene, kBefore);
        if (!handed_in) scene->compute(kBefore);
        for (std::int64_t ticket = kBefore; ticket < 3 * kBefore; ++ticket) {
          if (ticket > kBefore) scene->compute(ticket);
          scene->help(kParent);
          ASSERT_EQ(scene->ring.committed(), ticket + 1);
          expect_serial(*scene, ticket);
        }
      });
}

// The order in which a ticket's state and its hand-in are seen: whoever sees the second finds the
// first, killed or not.
TEST_F(KillSweep, OfATicketNeverShowsItHandedInWithoutItsState) {
  sweep([] { return std::make_unique<LaneScene>(); }, [](const auto& scene) { scene->compute(0); },
        [](const auto& scene, bool) {
          if (scene->ring.entry(0)) expect_serial(*scene, 0);
        });
}

}  // namespace
}  // namespace passel::shm
