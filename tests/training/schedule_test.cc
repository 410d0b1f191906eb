#include "passel/train/schedule.h"

#include <gtest/gtest.h>

namespace passel::train {
namespace {

TEST(Schedule, OfOrderedReadsTheVersionSoManyUpdatesBefore) {
  const Schedule schedule{.group = 1, .staleness = 2};
  const std::int64_t bases[] = {0, 0, 0, 1, 2, 3};
  for (std::int64_t ticket = 0; ticket < 6; ++ticket) {
    EXPECT_EQ(schedule.base_of(ticket), bases[ticket]);
    EXPECT_EQ(schedule.needs(ticket), bases[ticket]);
    EXPECT_TRUE(schedule.ends_step(ticket));
  }
}

TEST(Schedule, OfSyncReadsTheSameVersionForAllTicketsOfAStep) {
  const Schedule schedule{.group = 3, .staleness = 0};
  for (std::int64_t ticket = 0; ticket < 9; ++ticket) {
    EXPECT_EQ(schedule.base_of(ticket), ticket / 3);
    EXPECT_EQ(schedule.needs(ticket), ticket / 3 * 3);
    EXPECT_EQ(schedule.ends_step(ticket), ticket % 3 == 2);
  }
  EXPECT_EQ(schedule.border(6), 6);
  EXPECT_EQ(schedule.border(7), 9);
}

// What a commit overwrites is read by nobody any more: not by a ticket that can be open at the
// time, and not by the commit itself.
TEST(Schedule, KeepsEveryVersionAndGradientUntilItsLastReaderIsDone) {
  for (const std::int64_t group : {1, 2, 3}) {
    for (const std::int64_t staleness : {0, 1, 2, 5}) {
      const Schedule schedule{.group = group, .staleness = staleness};
      const Schedule with_base{.group = group, .staleness = staleness, .reads_base = true};
      for (std::int64_t step = 0; step < 20; ++step) {
        const std::int64_t overwritten = step + 1 - schedule.versions();
        EXPECT_NE(overwritten, step) << "it is what the step is made from";
        // Tickets from the step after this one on are open or to come.
        EXPECT_LT(overwritten, schedule.base_of((step + 1) * group));
        EXPECT_LT(step + 1 - with_base.versions(), with_base.base_of(step * group));
      }
      for (std::int64_t ticket = 0; ticket < 60; ++ticket) {
        // Whoever writes this gradient knows that all tickets before needs() are committed.
        const std::int64_t overwritten = ticket - schedule.gradients();
        if (overwritten < 0) continue;
        EXPECT_LT(schedule.step_of(overwritten), schedule.step_of(schedule.needs(ticket)))
            << "the step it belongs to is made already";
      }
    }
  }
}

}  // namespace
}  // namespace passel::train
