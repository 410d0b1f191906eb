#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "kill_sweep.h"
#include "passel/shm/queue.h"

namespace passel::shm::test {

struct SweepEntry {
  std::array<std::uint64_t, 4> word;

  static SweepEntry of(std::uint64_t value) { return {{value, value, value, value}}; }
  bool operator==(const SweepEntry&) const = default;
};

constexpr std::uint64_t kSweepCapacity = 4;

/// A queue that holds the entries 1 to `filled`.
struct QueueScene {
  using Queue = SimpleQueue<SweepEntry>;

  explicit QueueScene(std::uint64_t filled, std::uint32_t capacity = kSweepCapacity)
      : queue(Queue::create(arena, "queue", {.producers = 1, .capacity = capacity})) {
    for (std::uint64_t i = 1; i <= filled; ++i) producer.try_put(SweepEntry::of(i));
  }

  /// Leaves the flags of sleepers up, so that the steps lead through the wake-up too.
  void raise_sleeper_flags() {
    if (producer.full()) (void)producer.put(SweepEntry::of(0), Clock::now());
    (void)queue.doorbell().wait([] { return false; }, Clock::now(), 0);
  }

  Arena arena = Arena::create("sweep", 1 << 14);
  Queue queue;
  Queue::Producer producer = queue.producer(0);
  Queue::Consumer consumer = queue.consumer();
};

/// Takes all entries with a new consumer; they must be whole and count on from `first` or, where
/// an entry may have gone with the dead, from `first` + 1. Returns the range [from, to).
inline std::pair<std::uint64_t, std::uint64_t> drain(const QueueScene& scene, std::uint64_t first) {
  auto consumer = scene.queue.consumer();
  SweepEntry entry{};
  std::uint64_t from = 0;
  std::uint64_t next = 0;
  while (consumer.try_get(entry) == QueueStatus::kOk) {
    if (from == 0) next = from = entry.word[0];
    EXPECT_EQ(entry, SweepEntry::of(next)) << "torn or out of order";
    ++next;
  }
  EXPECT_TRUE(from == 0 || from == first || from == first + 1) << from;
  return {from, next};
}

/// The whole capacity serves the next owners.
inline void expect_usable(const QueueScene& scene) {
  auto producer = scene.queue.producer(0);
  auto consumer = scene.queue.consumer();
  SweepEntry entry{};
  for (std::uint64_t i = 0; i < kSweepCapacity; ++i) {
    ASSERT_EQ(producer.put(SweepEntry::of(100 + i), patience()), QueueStatus::kOk);
  }
  ASSERT_EQ(producer.try_put(SweepEntry::of(0)), QueueStatus::kFull);
  for (std::uint64_t i = 0; i < kSweepCapacity; ++i) {
    ASSERT_EQ(consumer.get(entry, patience()), QueueStatus::kOk);
    ASSERT_EQ(entry, SweepEntry::of(100 + i));
  }
}

}  // namespace passel::shm::test
