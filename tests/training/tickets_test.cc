#include "passel/train/tickets.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace passel::train {
namespace {

TEST(Tickets, AreGrantedInOrderUpToTheBorder) {
  Tickets sut(0, 10, 2);
  sut.set_border(3);
  for (std::int64_t expected = 0; expected < 3; ++expected) {
    ASSERT_EQ(sut.next(), expected);
    sut.grant(static_cast<std::uint32_t>(expected % 2));
  }
  EXPECT_EQ(sut.next(), std::nullopt);
  EXPECT_FALSE(sut.quiescent());
}

TEST(Tickets, AreQuiescentOnceAllBeforeTheBorderAreDone) {
  Tickets sut(0, 10, 1);
  sut.set_border(2);
  sut.grant(0);
  sut.grant(0);
  EXPECT_TRUE(sut.finish(0, 1));
  EXPECT_FALSE(sut.quiescent());
  EXPECT_TRUE(sut.finish(0, 0));
  EXPECT_TRUE(sut.quiescent());
}

TEST(Tickets, AreNotGrantedBeyondTheWindowOfTheOldestOpenOne) {
  Tickets sut(0, 100, 2);
  sut.set_window(3);
  for (std::uint32_t i = 0; i < 3; ++i) sut.grant(i % 2);
  EXPECT_EQ(sut.next(), std::nullopt);
  EXPECT_TRUE(sut.finish(1, 1));
  EXPECT_EQ(sut.next(), std::nullopt) << "0 is open still";
  EXPECT_EQ(sut.lose(0), 2U);
  EXPECT_EQ(sut.oldest_open(), 0);
  EXPECT_EQ(sut.next(), 0) << "lost ones are granted first";
  sut.grant(1);
  EXPECT_TRUE(sut.finish(1, 0));
  EXPECT_EQ(sut.oldest_open(), 2);
  sut.grant(1);
  EXPECT_EQ(sut.next(), 3);
}

TEST(Tickets, AreCountedOnceWhateverIsReported) {
  Tickets sut(0, 10, 2);
  sut.grant(0);
  EXPECT_FALSE(sut.finish(1, 0)) << "held by another slot";
  EXPECT_FALSE(sut.finish(0, 5)) << "never granted";
  EXPECT_TRUE(sut.finish(0, 0));
  EXPECT_FALSE(sut.finish(0, 0)) << "done already";
  EXPECT_EQ(sut.done(), 1);
}

TEST(Tickets, OfTheDeadAreGrantedAgainBeforeFreshOnes) {
  Tickets sut(0, 10, 2);
  for (const std::uint32_t slot : {0U, 1U, 0U, 1U}) sut.grant(slot);
  EXPECT_EQ(sut.lose(1), 2U);
  EXPECT_EQ(sut.next(), 1);
  sut.grant(0);
  EXPECT_EQ(sut.next(), 3);
  sut.grant(0);
  EXPECT_EQ(sut.next(), 4);
}

TEST(Tickets, TheBorderNeverMovesBeforeWhatWasGranted) {
  Tickets sut(0, 10, 1);
  sut.grant(0);
  sut.grant(0);
  sut.set_border(0);
  EXPECT_EQ(sut.border(), 2);
  sut.set_border(99);
  EXPECT_EQ(sut.border(), 10);
}

TEST(Tickets, OfAResumedRunBeginWhereItStopped) {
  Tickets sut(7, 10, 1);
  EXPECT_EQ(sut.next(), 7);
  EXPECT_EQ(sut.done(), 7);
}

// Random grants, ends and deaths against a model: each ticket ends once, and
// at every quiescent point exactly the tickets before the border are done.
TEST(Tickets, AreEachDoneOnceUnderRandomDeaths) {
  constexpr std::int64_t kTotal = 500;
  constexpr std::uint32_t kSlots = 3;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    Tickets sut(0, kTotal, kSlots);
    std::set<std::int64_t> done;
    std::int64_t border = 50;
    sut.set_border(border);
    while (done.size() < kTotal) {
      const auto slot = static_cast<std::uint32_t>(random() % kSlots);
      const auto& held = sut.held(slot);
      switch (random() % 4) {
        case 0:
          sut.lose(slot);
          break;
        case 1:
          if (!held.empty()) {
            const std::int64_t ticket = held[random() % held.size()];
            ASSERT_TRUE(sut.finish(slot, ticket));
            ASSERT_TRUE(done.insert(ticket).second) << "ticket " << ticket << " ended twice";
          }
          break;
        default:
          if (sut.next() && held.size() < 2) sut.grant(slot);
      }
      ASSERT_EQ(sut.done(), static_cast<std::int64_t>(done.size()));
      if (sut.quiescent() && border < kTotal) {
        ASSERT_EQ(*done.rbegin(), border - 1);
        border += 50;
        sut.set_border(border);
      }
    }
    EXPECT_EQ(sut.next(), std::nullopt);
  }
}

}  // namespace
}  // namespace passel::train
