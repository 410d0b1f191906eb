// What a process that writes to wild addresses can do to those who receive its handles.
#include <random>

#include "scene.h"
#include "support/stress.h"

namespace passel::shm {
namespace {

class GarbageHandles : public test::Scene {};

TEST_F(GarbageHandles, AreRefusedWithAStatusAndMoveNoBuffer) {
  constexpr unsigned kSeed = 73;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937_64 random(kSeed);
  create({.processes = 3, .region_bytes = 64 << 10, .chunks = 8, .events = 4});
  DeviceBuffer buffer;
  allocate(buffer, 4096);
  DeviceHandle good;
  ASSERT_EQ(exchange_->prepare(buffer, stream_, good), DeviceStatus::kOk);
  const auto peer = DeviceExchange::open(arena_, 1);
  const cudaStream_t stream = test::make_stream();
  const std::uint64_t in_use = exchange_->bytes_in_use();
  const std::uint32_t chunks = exchange_->ledger().chunks_in_use();
  const auto twist = [&](auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if (random() % 3 == 0) field = static_cast<Field>(random());
    if (random() % 3 == 0) field = static_cast<Field>(field + random() % 9 - 4);
  };
  std::uint64_t accepted = 0;
  const int rounds = testing::stress_size(20'000, 1'000'000);
  for (int round = 0; round < rounds; ++round) {
    DeviceHandle handle = good;
    twist(handle.offset);
    twist(handle.bytes);
    twist(handle.event.word);
    twist(handle.chunk.id);
    twist(handle.chunk.generation);
    if (random() % 8 == 0) twist(handle.exchange);
    for (DeviceExchange* const end : {peer.get(), exchange_.get()}) {
      if (end->claim(handle) != DeviceStatus::kOk) continue;
      DeviceBuffer received;
      if (end->receive(handle, stream, received) != DeviceStatus::kOk) continue;
      ++accepted;
      ASSERT_GE(received.data(), buffer.data());
      ASSERT_LE(received.data() + received.bytes(), buffer.data() + buffer.bytes());
    }
  }
  EXPECT_GT(accepted, 0U) << "now and then nothing of weight was twisted";
  exchange_->collect();
  EXPECT_EQ(exchange_->bytes_in_use(), in_use);
  EXPECT_EQ(exchange_->ledger().chunks_in_use(), chunks);
  EXPECT_EQ(exchange_->claim({}), DeviceStatus::kOtherArena);
  DeviceHandle stale = good;
  ++stale.chunk.generation;
  EXPECT_EQ(peer->claim(stale), DeviceStatus::kStale);
  DeviceHandle elsewhere = good;
  elsewhere.offset = ~std::uint64_t{0};
  EXPECT_EQ(peer->claim(elsewhere), DeviceStatus::kDamaged);
  exchange_->drop(good);
  peer->close();
}

TEST_F(GarbageHandles, OfABufferThatWasUsedAgainAreStale) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 8, .events = 4});
  DeviceHandle old;
  {
    DeviceBuffer buffer;
    allocate(buffer, 4096);
    ASSERT_EQ(exchange_->prepare(buffer, stream_, old), DeviceStatus::kOk);
    exchange_->drop(old);
  }
  DeviceBuffer successor;
  allocate(successor, 4096);
  const auto peer = DeviceExchange::open(arena_, 1);
  EXPECT_EQ(peer->claim(old), DeviceStatus::kStale);
  peer->close();
}

TEST_F(GarbageHandles, OfABufferOfItsOwnThatIsFreeAreStale) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 8, .events = 4});
  DeviceBuffer buffer;
  allocate(buffer, 4096);
  DeviceHandle invented;
  ASSERT_EQ(exchange_->prepare(buffer, stream_, invented), DeviceStatus::kOk);
  exchange_->drop(invented);
  invented.chunk.id = 5;  // never used, so of the first generation, too
  EXPECT_EQ(exchange_->claim(invented), DeviceStatus::kStale);
  EXPECT_EQ(exchange_->ledger().chunks_in_use(), 1U);
}

TEST_F(GarbageHandles, WithAnEventOfNoPoolAreDamaged) {
  create({.processes = 2, .region_bytes = 64 << 10, .chunks = 8, .events = 4});
  DeviceBuffer buffer;
  allocate(buffer, 4096);
  DeviceHandle good;
  ASSERT_EQ(exchange_->prepare(buffer, stream_, good), DeviceStatus::kOk);
  for (const EventMark mark : {EventMark{}, EventMark::make(8, 1), EventMark::make(0, 99)}) {
    DeviceHandle handle = good;
    handle.event = mark;
    DeviceBuffer received;
    ASSERT_EQ(exchange_->claim(handle), DeviceStatus::kOk);
    EXPECT_EQ(exchange_->receive(handle, stream_, received), DeviceStatus::kDamaged);
    EXPECT_FALSE(received);
  }
  exchange_->drop(good);
}

}  // namespace
}  // namespace passel::shm
