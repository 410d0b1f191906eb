#include "passel/shm/lane_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "shm/commit_team.h"
#include "shm/lane_states_scene.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

using test::LaneScene;

LaneStates make(Arena& arena, std::uint32_t lanes) {
  return LaneStates::create(arena, "states", lanes, 4);
}

void leave(const LaneStates& states, std::int64_t ticket, float value) {
  states.leave(ticket, [&](std::span<float> place) { std::ranges::fill(place, value); });
}

TEST(LaneStates, HaveNothingBeforeATicketLeftSomething) {
  Arena arena = Arena::create("lanes", 1 << 14);
  const LaneStates states = make(arena, 3);
  EXPECT_EQ(states.lanes(), 3);
  EXPECT_EQ(states.floats(), 4U);
  for (std::int64_t ticket = 0; ticket < 12; ++ticket) EXPECT_TRUE(states.find(ticket).empty());
  EXPECT_EQ(states.latest(2), LaneStates::kNobody);
  EXPECT_TRUE(states.find(-3).empty());
}

TEST(LaneStates, KeepTheTwoNewestOfEachLane) {
  Arena arena = Arena::create("lanes", 1 << 14);
  const LaneStates states = make(arena, 3);
  for (std::int64_t ticket = 0; ticket < 20; ++ticket) {
    leave(states, ticket, static_cast<float>(ticket));
    EXPECT_EQ(states.latest(ticket % 3), ticket);
    for (std::int64_t old = 0; old <= ticket; ++old) {
      const auto found = states.find(old);
      ASSERT_EQ(found.empty(), old <= ticket - 6) << old << " after " << ticket;
      if (!found.empty()) {
        EXPECT_EQ(std::vector<float>(found.begin(), found.end()),
                  std::vector<float>(4, static_cast<float>(old)));
      }
    }
  }
}

TEST(LaneStates, DoNotShowAPlaceThatIsBeingWritten) {
  Arena arena = Arena::create("lanes", 1 << 14);
  const LaneStates states = make(arena, 2);
  leave(states, 1, 1);
  leave(states, 3, 3);
  states.leave(5, [&](std::span<float>) {
    EXPECT_TRUE(states.find(5).empty());
    EXPECT_TRUE(states.find(1).empty()) << "its place is being overwritten";
    EXPECT_EQ(states.find(3)[0], 3) << "that is what 5 is computed from";
    EXPECT_EQ(states.latest(1), 3);
  });
}

TEST(LaneStates, OpenAsTheyWereCreated) {
  Arena arena = Arena::create("lanes", 1 << 14);
  leave(make(arena, 5), 7, 2.5F);
  const LaneStates opened = LaneStates::open(arena, "states");
  EXPECT_EQ(opened.lanes(), 5);
  ASSERT_EQ(opened.floats(), 4U);
  EXPECT_EQ(opened.find(7)[3], 2.5F);
}

// The rule of an ordered run: ticket n begins when n - lanes is committed.
TEST(LaneStates, AreThoseOfASerialProgramWhateverTheThreadsDo) {
  constexpr std::int64_t kTickets = 20'000;
  for (const int threads : {1, 2, 4}) {
    const LaneScene scene;
    test::run_team(
        scene, threads, kTickets,
        [&](std::int64_t ticket) { return scene.ring.committed() > ticket - LaneScene::kLanes; },
        [&](std::int64_t ticket) { scene.compute(ticket); });
    for (std::int64_t lane = 0; lane < LaneScene::kLanes; ++lane) {
      const std::int64_t ticket = kTickets - LaneScene::kLanes + lane;
      test::LaneState expected{};
      std::span<const float> before;
      for (std::int64_t t = lane; t <= ticket; t += LaneScene::kLanes) {
        expected = test::next_lane_state(before, t);
        before = expected;
      }
      ASSERT_TRUE(std::ranges::equal(scene.states.find(ticket), expected)) << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace passel::shm
