#include "passel/shm/commit_ring.h"

#include <gtest/gtest.h>

#include "shm/commit_ring_scene.h"
#include "shm/commit_team.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

using test::CommitScene;
using test::serial_state;

TEST(CommitRing, CommitsNothingBeforeTheNextTicketIsPublished) {
  const CommitScene scene;
  EXPECT_FALSE(scene.help(0));
  scene.publish(1);
  EXPECT_FALSE(scene.ring.needs_help());
  EXPECT_FALSE(scene.help(0));
  EXPECT_EQ(scene.ring.committed(), 0);
}

TEST(CommitRing, CommitsAllThatFollowsOnTheTicketThatWasMissing) {
  const CommitScene scene;
  scene.publish(2);
  scene.publish(1);
  scene.publish(0);
  EXPECT_TRUE(scene.ring.needs_help());
  EXPECT_TRUE(scene.help(0));
  EXPECT_EQ(scene.ring.committed(), 3);
  EXPECT_EQ(scene.state(3), serial_state(3));
  EXPECT_FALSE(scene.help(0));
}

TEST(CommitRing, GoesOnFromTheTicketItWasStartedAt) {
  const CommitScene scene;
  scene.ring.start_at(40);
  scene.state(40) = serial_state(40);
  scene.publish(40);
  EXPECT_TRUE(scene.help(3));
  EXPECT_EQ(scene.ring.committed(), 41);
  EXPECT_EQ(scene.state(41), serial_state(41));
}

TEST(CommitRing, KeepsTheEntriesOfItsWindow) {
  const CommitScene scene;
  for (std::int64_t ticket = 0; ticket < 6; ++ticket) {
    EXPECT_FALSE(scene.ring.entry(ticket)) << "not published yet";
    scene.publish(ticket);
    scene.help(0);
  }
  EXPECT_FALSE(scene.ring.entry(1)) << "its place was used again";
  for (std::int64_t ticket = 2; ticket < 6; ++ticket) {
    ASSERT_TRUE(scene.ring.entry(ticket));
    EXPECT_EQ(scene.ring.entry(ticket)->contribution, test::contribution_of(ticket));
  }
}

TEST(CommitRing, OpensAsItWasCreated) {
  const CommitScene scene;
  scene.publish(0);
  const auto opened = CommitRing<CommitScene::Entry>::open(scene.arena, "ring");
  EXPECT_TRUE(opened.entry(0));
  EXPECT_TRUE(opened.needs_help());
}

// The rule that the window gives: version n - 1 is what ticket n is computed from, and ticket n is
// published only when that has been committed.
TEST(CommitRing, GivesTheSerialResultWhateverTheThreadsDo) {
  constexpr std::int64_t kTickets = 20'000;
  for (const int threads : {1, 2, 4}) {
    const CommitScene scene;
    test::run_team(
        scene, threads, kTickets,
        [&](std::int64_t ticket) { return scene.ring.committed() >= ticket - 1; },
        [&](std::int64_t ticket) { scene.publish(ticket); });
    EXPECT_EQ(scene.ring.committed(), kTickets);
    EXPECT_EQ(scene.state(kTickets), serial_state(kTickets)) << threads << " threads";
  }
}

}  // namespace
}  // namespace passel::shm
