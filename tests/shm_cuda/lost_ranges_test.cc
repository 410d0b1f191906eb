#include "passel/shm_cuda/lost_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace passel::shm {
namespace {

/// What is lost and what is kept takes turns: of every ten counts the last four are lost.
constexpr std::uint64_t kTurn = 10;
constexpr std::uint64_t kDone = 6;

bool was_lost(std::uint64_t count) {
  return (count - 1) % kTurn >= kDone;
}

void add_turn(LostRanges& ranges, std::uint64_t turn) {
  ranges.add(turn * kTurn + kDone, (turn + 1) * kTurn);
}

TEST(LostRanges, AreKeptAsTheyAreWhenTheyAreFew) {
  LostRanges ranges;
  EXPECT_FALSE(ranges.contains(1));
  for (std::uint64_t turn = 0; turn < LostRanges::kExact; ++turn) add_turn(ranges, turn);
  for (std::uint64_t count = 1; count <= LostRanges::kExact * kTurn; ++count) {
    EXPECT_EQ(ranges.contains(count), was_lost(count)) << count;
  }
  EXPECT_FALSE(ranges.contains(LostRanges::kExact * kTurn + 1));
}

TEST(LostRanges, NeverForgetWhatWasLostAndGetOnlyOldOnesTooWide) {
  LostRanges ranges;
  for (std::uint64_t turn = 0; turn < 100; ++turn) {
    add_turn(ranges, turn);
    for (std::uint64_t count = 1; count <= (turn + 1) * kTurn; ++count) {
      const bool recent = count + LostRanges::kExact * kTurn > (turn + 1) * kTurn;
      const bool first = count <= kDone;
      if (recent || first || was_lost(count)) {
        ASSERT_EQ(ranges.contains(count), was_lost(count)) << count << " after turn " << turn;
      }
    }
  }
}

TEST(LostRanges, AreNeverOverlookedWhileOthersAreAdded) {
  constexpr std::uint64_t kTurns = 20'000;
  LostRanges ranges;
  std::atomic<std::uint64_t> turns{0};
  std::thread parent([&] {
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      add_turn(ranges, turn);
      turns.store(turn + 1);
    }
  });
  for (std::uint64_t seen = 0; seen < kTurns;) {
    seen = turns.load();
    // The one that gives way next, and the one that did last.
    for (const std::uint64_t age : {LostRanges::kExact, LostRanges::kExact + 1}) {
      if (seen < age) continue;
      const std::uint64_t count = (seen - age + 1) * kTurn;
      if (!ranges.contains(count)) {
        ADD_FAILURE() << count << " was overlooked after turn " << seen;
        seen = kTurns;
      }
    }
  }
  parent.join();
}

}  // namespace
}  // namespace passel::shm
