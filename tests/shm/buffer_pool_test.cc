#include "passel/shm/buffer_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace passel::shm {
namespace {

TEST(BufferPool, HandsOutTheBufferThatWasFreedLast) {
  BufferPool pool(3);
  const Lease a = *pool.lease(0, 1);
  const Lease b = *pool.lease(0, 1);
  EXPECT_NE(a.buffer, b.buffer);
  ASSERT_TRUE(pool.accept(a));
  ASSERT_TRUE(pool.give_back(a));
  const Lease again = *pool.lease(1, 1);
  EXPECT_EQ(again.buffer, a.buffer);
  EXPECT_NE(again.generation, a.generation);
}

TEST(BufferPool, IsEmptyWhenAllIsOut) {
  BufferPool pool(1);
  EXPECT_TRUE(pool.lease(0, 1));
  EXPECT_FALSE(pool.lease(0, 1));
  EXPECT_FALSE(BufferPool(0).lease(0, 1));
}

TEST(BufferPool, AcceptsALeaseOnceAndCountsWhatItRefuses) {
  BufferPool pool(2);
  const Lease lease = *pool.lease(3, 7);
  Lease wrong = lease;
  wrong.incarnation = 8;
  EXPECT_FALSE(pool.accept(wrong));
  wrong = lease;
  wrong.slot = 0;
  EXPECT_FALSE(pool.accept(wrong));
  wrong = lease;
  ++wrong.generation;
  EXPECT_FALSE(pool.accept(wrong));
  wrong.buffer = 2;
  EXPECT_FALSE(pool.accept(wrong)) << "outside the pool";
  EXPECT_FALSE(pool.give_back(lease)) << "still the worker's";
  EXPECT_TRUE(pool.accept(lease));
  EXPECT_FALSE(pool.accept(lease)) << "doubled";
  EXPECT_TRUE(pool.give_back(lease));
  EXPECT_FALSE(pool.give_back(lease));
  EXPECT_EQ(pool.stale(), 7U);
  EXPECT_EQ(pool.free(), 2U);
}

TEST(BufferPool, ReclaimsFromTheDeadIncarnationOnly) {
  BufferPool pool(4);
  const Lease dead = *pool.lease(0, 1);
  const Lease returned = *pool.lease(0, 1);
  const Lease successor = *pool.lease(0, 2);
  const Lease neighbour = *pool.lease(1, 1);
  ASSERT_TRUE(pool.accept(returned));
  EXPECT_EQ(pool.reclaim(0, 1), 1U);
  EXPECT_EQ(pool.reclaim(0, 1), 0U);
  EXPECT_FALSE(pool.accept(dead));
  EXPECT_TRUE(pool.give_back(returned)) << "it was the parent's already";
  EXPECT_TRUE(pool.accept(successor));
  EXPECT_TRUE(pool.accept(neighbour));
}

/// Random operations beside a map that says who has what.
TEST(BufferPool, DoesAsItsModelInAnyOrderOfCalls) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    BufferPool pool(16);
    std::map<std::uint32_t, Lease> leased;
    std::map<std::uint32_t, Lease> held;
    std::vector<Lease> past;
    std::vector<std::uint32_t> incarnation(4, 1);
    std::uint64_t stale = 0;
    const auto pick = [&](auto& from) { return std::next(from.begin(), random() % from.size()); };

    for (int step = 0; step < 20'000; ++step) {
      const std::uint32_t slot = random() % 4;
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: {
          const auto lease = pool.lease(slot, incarnation[slot]);
          ASSERT_EQ(lease.has_value(), leased.size() + held.size() < 16);
          if (!lease) break;
          ASSERT_FALSE(leased.contains(lease->buffer) || held.contains(lease->buffer));
          leased[lease->buffer] = *lease;
          break;
        }
        case 3:
        case 4:
          if (leased.empty()) break;
          {
            const auto it = pick(leased);
            ASSERT_TRUE(pool.accept(it->second));
            held.insert(*it);
            leased.erase(it);
          }
          break;
        case 5:
          if (held.empty()) break;
          {
            const auto it = pick(held);
            ASSERT_TRUE(pool.give_back(it->second));
            past.push_back(it->second);
            held.erase(it);
          }
          break;
        case 6:
          if (past.empty()) break;
          ASSERT_FALSE(pool.accept(*pick(past)));
          ASSERT_FALSE(pool.give_back(*pick(past)));
          stale += 2;
          break;
        default: {
          if (random() % 8 != 0) break;
          const std::size_t lost = std::erase_if(leased, [&](const auto& item) {
            if (item.second.slot == slot) past.push_back(item.second);
            return item.second.slot == slot;
          });
          ASSERT_EQ(pool.reclaim(slot, incarnation[slot]++), lost);
        }
      }
      ASSERT_EQ(pool.leased(), leased.size());
      ASSERT_EQ(pool.held(), held.size());
      ASSERT_EQ(pool.free(), 16 - leased.size() - held.size());
      ASSERT_EQ(pool.stale(), stale);
    }
  }
}

}  // namespace
}  // namespace passel::shm
