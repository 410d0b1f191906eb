#include "passel/train/tickets.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Tickets, WaitForTheOneBeforeThemInTheirLaneAndAreGrantedAsSoonAsItIsDone) {
  Tickets sut(0, 100, 2);
  sut.set_lanes(3);
  for (int i = 0; i < 3; ++i) sut.grant(0);
  EXPECT_EQ(sut.next(), std::nullopt) << "each lane has a ticket under way";
  EXPECT_TRUE(sut.finish(0, 1));
  EXPECT_EQ(sut.next(), 4) << "3 waits for 0 and is passed over";
  sut.grant(1);
  EXPECT_EQ(sut.fresh(), 5);
  EXPECT_EQ(sut.next(), std::nullopt);
  EXPECT_EQ(sut.oldest_open(), 0);
  EXPECT_TRUE(sut.finish(0, 0));
  EXPECT_EQ(sut.next(), 3);
  sut.grant(1);
  EXPECT_EQ(sut.lose(1), 2U) << "what was passed over counts when it was granted only";
  EXPECT_EQ(sut.next(), 3);
  sut.set_border(0);
  EXPECT_EQ(sut.border(), 5) << "those passed over are before it";
}

// Random grants, ends and deaths: no ticket is granted before its predecessor is done, each is done
// once, and while a slot has room in lanes enough there always is a ticket.
TEST(Tickets, OfLanesAreEachDoneOnceAndInTheOrderOfTheirLane) {
  constexpr std::int64_t kTotal = 400, kLanes = 6;
  constexpr std::uint32_t kSlots = 3, kDepth = 2;
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Tickets sut(0, kTotal, kSlots);
    sut.set_lanes(kLanes);
    std::set<std::int64_t> done;
    while (sut.done() < kTotal) {
      const auto slot = static_cast<std::uint32_t>(random() % kSlots);
      const auto held = sut.held(slot);
      if (random() % 20 == 0) {
        sut.lose(slot);
      } else if (held.size() < kDepth && random() % 2 == 0) {
        const auto next = sut.next();
        if (!next) {
          ASSERT_GT(sut.fresh(), kTotal - kLanes) << "a lane is free while a slot is";
          continue;
        }
        ASSERT_TRUE(*next < kLanes || done.contains(*next - kLanes)) << *next;
        sut.grant(slot);
      } else if (!held.empty()) {
        const std::int64_t ticket = held[random() % held.size()];
        ASSERT_TRUE(sut.finish(slot, ticket));
        ASSERT_TRUE(done.insert(ticket).second) << ticket;
      }
    }
    EXPECT_EQ(std::ssize(done), kTotal);
    EXPECT_TRUE(sut.quiescent());
  }
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

// Workers that take a unit of time for a ticket, beginning with the oldest they hold, and only when
// all steps before its own are done.
class Steps {
 public:
  Steps(std::int64_t tickets, std::uint32_t workers, std::int64_t group)
      : sut_(0, tickets, workers), group_(group), ready_(workers, false) {
    sut_.set_group(group);
    sut_.set_window(2 * group);
  }

  void start(std::uint32_t worker) { ready_[worker] = true; }
  void kill(std::uint32_t worker) {
    sut_.lose(worker);
    ready_[worker] = false;
  }
  bool done() const { return sut_.done() == sut_.total(); }

  /// One unit of time: what is granted, then computed.
  void pass() {
    while (grant_one()) {
    }
    const std::int64_t startable = (sut_.oldest_open() / group_ + 1) * group_;
    for (std::uint32_t worker = 0; worker < ready_.size(); ++worker) {
      const auto& held = sut_.held(worker);
      const auto oldest = std::ranges::min_element(held);
      if (oldest != held.end() && *oldest < startable) sut_.finish(worker, *oldest);
    }
  }

 private:
  static constexpr std::size_t kDepth = 2;

  bool grant_one() {
    if (!sut_.next()) return false;
    for (std::uint32_t worker = 0; worker < ready_.size(); ++worker) {
      if (!ready_[worker] || sut_.held(worker).size() >= kDepth) continue;
      if (!sut_.suits(worker, kDepth, [&](auto w) { return ready_[w]; })) continue;
      sut_.grant(worker);
      return true;
    }
    return false;
  }

  Tickets sut_;
  std::int64_t group_;
  std::vector<bool> ready_;
};

TEST(Tickets, OfAStepAreSpreadHoweverLateAWorkerComes) {
  for (const std::uint32_t workers : {1, 2, 3, 4}) {
    for (const std::int64_t group : {1, 2, 3, 4, 8}) {
      Steps sut(100 * group, workers, group);
      int units = 0;
      for (std::uint32_t worker = 0; !sut.done(); ++units) {
        if (worker < workers) sut.start(worker++);
        ASSERT_LT(units, 2000) << "no worker gets on";
        sut.pass();
      }
      const auto turns = (group + workers - 1) / workers;
      EXPECT_LE(units, 100 * turns + 20) << workers << " workers, " << group << " tickets a step";
    }
  }
}

TEST(Tickets, OfAStepAreAllGrantedWhoeverDies) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto workers = std::uniform_int_distribution<std::uint32_t>(1, 5)(random);
    Steps sut(60, workers, std::uniform_int_distribution(1, 6)(random));
    int units = 0;
    for (; !sut.done() && units < 3000; ++units) {
      const auto worker = std::uniform_int_distribution<std::uint32_t>(0, workers - 1)(random);
      random() % 4 == 0 ? sut.kill(worker) : sut.start(worker);
      sut.pass();
    }
    EXPECT_TRUE(sut.done()) << "no worker gets on";
  }
}

}  // namespace
}  // namespace passel::train
