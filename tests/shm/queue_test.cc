#include "passel/shm/queue.h"

#include <gmock/gmock.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "passel/shm/buffer_pool.h"
#include "support.h"

namespace passel::shm {
namespace {

using std::chrono::milliseconds;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Queue = SimpleQueue<std::uint64_t>;

class SimpleQueueTest : public ::testing::Test {
 protected:
  Queue make(QueueOptions options) { return Queue::create(arena_, "queue", options); }

  Arena arena_ = Arena::create("test", 1 << 20);
};

TEST_F(SimpleQueueTest, SaysFullAndEmptyWithoutWaiting) {
  const Queue queue = make({.producers = 1, .capacity = 2});
  auto producer = queue.producer(0);
  auto consumer = queue.consumer();
  std::uint64_t value = 0;
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kEmpty);
  EXPECT_EQ(producer.try_put(1), QueueStatus::kOk);
  EXPECT_EQ(producer.try_put(2), QueueStatus::kOk);
  EXPECT_EQ(producer.try_put(3), QueueStatus::kFull);
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kOk);
  EXPECT_EQ(value, 1U);
}

TEST_F(SimpleQueueTest, RoundsItsCapacityUpToAPowerOfTwo) {
  EXPECT_EQ(make({.producers = 1, .capacity = 5}).capacity(), 8U);
}

TEST_F(SimpleQueueTest, TakesTurnsBetweenProducers) {
  const Queue queue = make({.producers = 3, .capacity = 4});
  for (std::uint32_t p = 0; p < 3; ++p) {
    auto producer = queue.producer(p);
    for (std::uint64_t i = 0; i < 2; ++i) ASSERT_EQ(producer.try_put(10 * p + i), QueueStatus::kOk);
  }
  auto consumer = queue.consumer();
  std::vector<std::uint64_t> order;
  for (std::uint64_t value = 0; consumer.try_get(value) == QueueStatus::kOk;)
    order.push_back(value);
  EXPECT_THAT(order, ElementsAre(0, 10, 20, 1, 11, 21));
}

TEST_F(SimpleQueueTest, TimesOutWhenEmptyAndWhenFull) {
  const Queue queue = make({.producers = 1, .capacity = 1});
  auto producer = queue.producer(0);
  auto consumer = queue.consumer();
  std::uint64_t value = 0;
  Deadline deadline = after(milliseconds(70));
  EXPECT_EQ(consumer.get(value, deadline), QueueStatus::kTimeout);
  EXPECT_GE(Clock::now(), deadline);
  ASSERT_EQ(producer.put(1), QueueStatus::kOk);
  deadline = after(milliseconds(70));
  EXPECT_EQ(producer.put(2, deadline), QueueStatus::kTimeout);
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_EQ(consumer.get(value), QueueStatus::kOk);
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kEmpty) << "the put that timed out left nothing";
}

TEST_F(SimpleQueueTest, DeliversWhatIsLeftAfterItWasClosed) {
  const Queue queue = make({.producers = 2, .capacity = 4});
  auto producer = queue.producer(1);
  ASSERT_EQ(producer.put(7), QueueStatus::kOk);
  EXPECT_FALSE(queue.closed());
  queue.close();
  EXPECT_TRUE(queue.closed());
  EXPECT_EQ(producer.put(8), QueueStatus::kClosed);
  EXPECT_EQ(producer.try_put(8), QueueStatus::kClosed);
  auto consumer = queue.consumer();
  std::uint64_t value = 0;
  EXPECT_EQ(consumer.get(value), QueueStatus::kOk);
  EXPECT_EQ(value, 7U);
  EXPECT_EQ(consumer.get(value), QueueStatus::kClosed);
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kClosed);
}

TEST_F(SimpleQueueTest, WakesBothSidesWhenItIsClosed) {
  const Queue full = Queue::create(arena_, "full", {.producers = 1, .capacity = 1});
  const Queue empty = Queue::create(arena_, "empty", {.producers = 1, .capacity = 1});
  ASSERT_EQ(full.producer(0).try_put(1), QueueStatus::kOk);
  std::thread putter([&] { EXPECT_EQ(full.producer(0).put(2), QueueStatus::kClosed); });
  std::thread getter([&] {
    std::uint64_t value = 0;
    EXPECT_EQ(empty.consumer().get(value), QueueStatus::kClosed);
  });
  full.close();
  empty.close();
  putter.join();
  getter.join();
}

TEST_F(SimpleQueueTest, DeliversEverythingOfBlockingThreadsInOrder) {
  constexpr std::uint32_t kProducers = 3;
  constexpr std::uint64_t kEach = 20'000;
  const Queue queue = make({.producers = kProducers, .capacity = 4});
  std::vector<std::thread> peers;
  for (std::uint32_t p = 0; p < kProducers; ++p) {
    peers.emplace_back([&queue, p] {
      auto producer = queue.producer(p);
      for (std::uint64_t i = 0; i < kEach; ++i) producer.put(std::uint64_t{p} << 32 | i);
    });
  }
  auto consumer = queue.consumer();
  std::vector<std::uint64_t> next(kProducers);
  std::uint64_t out_of_order = 0;
  for (std::uint64_t n = 0; n < kProducers * kEach; ++n) {
    std::uint64_t value = 0;
    ASSERT_EQ(consumer.get(value, test::patience()), QueueStatus::kOk);
    out_of_order += (value & 0xffffffff) != next[value >> 32]++;
  }
  for (std::thread& peer : peers) peer.join();
  EXPECT_EQ(out_of_order, 0U);
  EXPECT_TRUE(consumer.empty());
}

TEST_F(SimpleQueueTest, LetsItsConsumerWaitForOtherNewsToo) {
  const Queue queue = make({.producers = 1, .capacity = 4});
  auto consumer = queue.consumer();
  std::atomic<bool> news{false};
  std::thread messenger([&] {
    news.store(true);
    queue.doorbell().ring();
  });
  EXPECT_TRUE(
      consumer.doorbell().wait([&] { return !consumer.empty() || news.load(); }, test::patience()));
  messenger.join();
  EXPECT_TRUE(news.load());
}

TEST_F(SimpleQueueTest, KeepsTheEntriesOfADeadProducerForItsSuccessor) {
  const Queue queue = make({.producers = 1, .capacity = 2});
  ASSERT_EQ(queue.producer(0).try_put(1), QueueStatus::kOk);
  queue.reset_producer(0);
  ASSERT_EQ(queue.producer(0).try_put(2), QueueStatus::kOk);
  auto consumer = queue.consumer();
  std::uint64_t value = 0;
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kOk);
  EXPECT_EQ(value, 1U);
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kOk);
  EXPECT_EQ(value, 2U);
}

TEST_F(SimpleQueueTest, IsEmptyAndOpenAfterAResetAndLiveProducersGoOn) {
  const Queue queue = make({.producers = 1, .capacity = 2});
  auto producer = queue.producer(0);
  ASSERT_EQ(producer.try_put(1), QueueStatus::kOk);
  ASSERT_EQ(producer.try_put(2), QueueStatus::kOk);
  queue.close();
  queue.reset();
  EXPECT_FALSE(queue.closed());
  auto consumer = queue.consumer();
  std::uint64_t value = 0;
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kEmpty);
  EXPECT_EQ(producer.try_put(3), QueueStatus::kOk);
  EXPECT_EQ(producer.try_put(4), QueueStatus::kOk);
  EXPECT_EQ(producer.try_put(5), QueueStatus::kFull);
  EXPECT_EQ(consumer.try_get(value), QueueStatus::kOk);
  EXPECT_EQ(value, 3U);
}

TEST_F(SimpleQueueTest, OpensByNameWithItsOwnTypeOnly) {
  make({.producers = 2, .capacity = 4});
  arena_.add("bytes", 4096);
  EXPECT_EQ(Queue::open(arena_, "queue").producers(), 2U);
  EXPECT_THAT(error_of([&] { SimpleQueue<Lease>::open(arena_, "queue"); }), HasSubstr("16 bytes"));
  EXPECT_THAT(error_of([&] { Queue::open(arena_, "bytes"); }), HasSubstr("no queue"));
  EXPECT_THAT(error_of([&] { Queue::open(arena_, "quack"); }), HasSubstr("quack"));
}

TEST_F(SimpleQueueTest, RefusesSizesThatMakeNoSense) {
  EXPECT_THAT(error_of([&] { make({.producers = 0}); }), HasSubstr("0 producers"));
  EXPECT_THAT(error_of([&] { make({.producers = 1, .capacity = 0}); }), HasSubstr("capacity 0"));
  EXPECT_THAT(error_of([&] { make({.producers = 1, .capacity = ~0U}); }), HasSubstr("capacity"));
  const Queue queue = make({.producers = 1});
  EXPECT_THAT(error_of([&] { (void)queue.producer(1); }), HasSubstr("producer 1"));
  EXPECT_THAT(error_of([&] { queue.reset_producer(1); }), HasSubstr("producer 1"));
}

/// A worker can scribble over all of a queue. The reader may get garbage; it must get it in
/// bounded time, must not crash, and must be able to tell garbage from leases.
TEST_F(SimpleQueueTest, SurvivesGarbageInEveryByte) {
  for (const std::uint32_t seed : {11U, 12U, 13U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Arena arena = Arena::create("test", 1 << 20);
    const auto queue = SimpleQueue<Lease>::create(arena, "leases", {.producers = 2, .capacity = 8});
    auto consumer = queue.consumer();
    auto producer = queue.producer(0);
    BufferPool pool(4);
    ASSERT_TRUE(pool.lease(0, 1));
    for (int round = 0; round < 2000; ++round) {
      for (std::byte& byte : arena.bytes(arena.find("leases"))) {
        if (random() % 16 == 0) byte = static_cast<std::byte>(random() % (round % 2 ? 3 : 256));
      }
      Lease lease{};
      for (int i = 0; i < 20; ++i) {
        if (consumer.try_get(lease) == QueueStatus::kOk) pool.accept(lease);
        producer.try_put(lease);
      }
      ASSERT_EQ(pool.free() + pool.leased() + pool.held(), 4U);
      (void)consumer.get(lease, Clock::now());
      queue.reset_producer(0);
      queue.reset_producer(1);
    }
  }
}

}  // namespace
}  // namespace passel::shm
