// What a worker that writes to wild addresses can do to its queue: send garbage, and no more.
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <span>

#include "passel/shm/buffer_pool.h"
#include "passel/shm/queue.h"
#include "support.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

constexpr std::uint32_t kCapacity = 8;
constexpr std::uint32_t kProducers = 2;

class Garbage : public ::testing::Test {
 protected:
  using Queue = SimpleQueue<Lease>;

  /// Now and then a number that is nearly right, which is the more dangerous.
  std::uint64_t garbage_near(std::uint64_t value) {
    switch (random_() % 4) {
      case 0:
        return random_();
      case 1:
        return value + random_() % (2 * kCapacity);
      case 2:
        return value - random_() % (2 * kCapacity);
      default:
        return value;
    }
  }

  void scribble() {
    for (std::uint32_t i = 0; i < kProducers; ++i) {
      RingIndices& ring = *layout_.indices(i);
      ring.head.store(garbage_near(ring.head.load()));
      ring.tail.store(garbage_near(ring.head.load()));
      auto* words = static_cast<std::uint32_t*>(layout_.slots(i));
      for (std::size_t k = 0; k < kCapacity * sizeof(Lease) / sizeof(*words); ++k) {
        words[k] = static_cast<std::uint32_t>(random_() % 2 == 0 ? random_() : random_() % 5);
      }
    }
  }

  static constexpr unsigned kSeed = 61;
  std::mt19937_64 random_{kSeed};
  Arena arena_ = Arena::create("test", 1 << 14);
  Queue queue_ = Queue::create(arena_, "queue", {.producers = kProducers, .capacity = kCapacity});
  QueueLayout layout_ = QueueLayout::open(arena_, "queue", sizeof(Lease), alignof(Lease));
  BufferPool pool_{4};
};

TEST_F(Garbage, InIndicesAndEntriesNeitherTrapsTheReaderNorMovesABuffer) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  const auto lease = pool_.lease(1, 7);
  const int rounds = testing::stress_size(20'000, 2'000'000);
  std::uint64_t delivered = 0;
  auto old_consumer = queue_.consumer();
  for (int round = 0; round < rounds; ++round) {
    scribble();
    auto new_consumer = queue_.consumer();
    for (auto* consumer : {&old_consumer, &new_consumer}) {
      std::uint32_t count = 0;
      for (Lease got{}; consumer->try_get(got) == QueueStatus::kOk && ++count;) {
        ++delivered;
        if (lease && got != *lease) {
          ASSERT_FALSE(pool_.accept(got));
        }
      }
      // One lap that it had seen before, one of the new indices.
      ASSERT_LE(count, 2 * kProducers * kCapacity) << "round " << round;
    }
    ASSERT_EQ(pool_.free() + pool_.leased() + pool_.held(), pool_.size());
  }
  EXPECT_GT(delivered, static_cast<std::uint64_t>(rounds)) << "the garbage was never delivered";
}

TEST_F(Garbage, IsGoneAfterTheParentsResets) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  for (int round = 0; round < 2000; ++round) {
    scribble();
    for (std::uint32_t i = 0; i < kProducers; ++i) queue_.reset_producer(i);
    queue_.reset();
    auto consumer = queue_.consumer();
    Lease got{};
    ASSERT_EQ(consumer.try_get(got), QueueStatus::kEmpty) << "round " << round;
    for (std::uint32_t i = 0; i < kProducers; ++i) {
      auto producer = queue_.producer(i);
      for (std::uint32_t k = 0; k < kCapacity; ++k) {
        ASSERT_EQ(producer.try_put({k, i, 0, 0}), QueueStatus::kOk) << "round " << round;
      }
      ASSERT_EQ(producer.try_put({}), QueueStatus::kFull);
    }
    for (std::uint32_t k = 0; k < kProducers * kCapacity; ++k) {
      ASSERT_EQ(consumer.try_get(got), QueueStatus::kOk);
    }
    ASSERT_EQ(consumer.try_get(got), QueueStatus::kEmpty);
  }
}

}  // namespace
}  // namespace passel::shm
