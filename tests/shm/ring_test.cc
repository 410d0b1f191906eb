#include "passel/shm/ring.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace passel::shm {
namespace {

template <std::size_t Capacity, class T = std::uint64_t>
struct Memory {
  RingIndices indices;
  std::array<T, Capacity> slots{};

  RingProducer<T> producer() { return {&indices, slots.data(), Capacity}; }
  RingConsumer<T> consumer() { return {&indices, slots.data(), Capacity}; }
};

TEST(Ring, HandsOutWhatWasPutInInOrder) {
  Memory<4> memory;
  auto producer = memory.producer();
  auto consumer = memory.consumer();
  std::uint64_t in = 0;
  std::uint64_t out = 0;
  for (int lap = 0; lap < 10; ++lap) {
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(producer.try_push(in++));
    for (std::uint64_t value = 0; consumer.try_pop(value);) ASSERT_EQ(value, out++);
  }
  EXPECT_EQ(out, 30U);
}

TEST(Ring, HoldsItsWholeCapacityAndNoMore) {
  Memory<4> memory;
  auto producer = memory.producer();
  auto consumer = memory.consumer();
  EXPECT_TRUE(consumer.empty());
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_FALSE(producer.full());
    EXPECT_TRUE(producer.try_push(i));
  }
  EXPECT_TRUE(producer.full());
  EXPECT_FALSE(producer.try_push(9));
  std::uint64_t value = 0;
  EXPECT_TRUE(consumer.try_pop(value));
  EXPECT_TRUE(producer.try_push(4));
  EXPECT_FALSE(consumer.empty());
}

TEST(Ring, GoesOnWithNewEndsWhereTheOldOnesStopped) {
  Memory<4> memory;
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(memory.producer().try_push(i));
    ASSERT_TRUE(memory.producer().try_push(i + 100));
    ASSERT_TRUE(memory.consumer().try_pop(value));
    EXPECT_EQ(value, i);
    ASSERT_TRUE(memory.consumer().try_pop(value));
    EXPECT_EQ(value, i + 100);
    ASSERT_FALSE(memory.consumer().try_pop(value));
  }
}

TEST(Ring, ReadsATailThatNobodyCanHaveWrittenAsEmpty) {
  Memory<4> memory;
  auto consumer = memory.consumer();
  std::uint64_t value = 0;
  for (const std::uint64_t tail : {5ULL, 1ULL << 40, ~0ULL}) {
    memory.indices.tail.store(tail);
    EXPECT_FALSE(consumer.try_pop(value));
    EXPECT_TRUE(consumer.empty());
  }
  memory.indices.tail.store(1);
  EXPECT_TRUE(consumer.try_pop(value));
}

TEST(Ring, WorksAcrossTheWrapOf64Bits) {
  Memory<2> memory;
  memory.indices.tail.store(~0ULL);
  memory.indices.head.store(~0ULL);
  auto producer = memory.producer();
  auto consumer = memory.consumer();
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(producer.try_push(i));
    ASSERT_TRUE(consumer.try_pop(value));
    ASSERT_EQ(value, i);
  }
}

TEST(Ring, TearsNothingBetweenTwoThreads) {
  using Wide = std::array<std::uint64_t, 16>;
  Memory<8, Wide> memory;
  constexpr std::uint64_t kCount = 20'000;
  std::thread peer([&] {
    auto producer = memory.producer();
    Wide value;
    for (std::uint64_t i = 0; i < kCount;) {
      value.fill(i);
      producer.try_push(value) ? (void)++i : std::this_thread::yield();
    }
  });
  auto consumer = memory.consumer();
  Wide value{};
  Wide expected{};
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kCount;) {
    if (!consumer.try_pop(value)) {
      std::this_thread::yield();
      continue;
    }
    expected.fill(i++);
    wrong += value != expected;
  }
  peer.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace passel::shm
