#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "passel/shm/chunk_ledger.h"
#include "passel/shm/queue.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

constexpr std::uint64_t kMessages = 20'000;
constexpr std::size_t kWords = 64;

struct Message {
  ChunkHandle chunk;
  std::uint64_t stamp;
};

/// One process, played by a thread.
class Player {
 public:
  Player(const Arena& arena, const ChunkTable& table, std::uint32_t process)
      : arena_(arena), ledger_(arena, table, process) {}

  std::span<std::uint64_t> words(ChunkHandle chunk) const {
    const std::uint64_t offset = ledger_.table()[chunk.id].offset;
    return {reinterpret_cast<std::uint64_t*>(arena_.data() + offset), kWords};
  }

  ChunkHandle make(std::uint64_t stamp) {
    ChunkLedger::Allocation chunk{};
    inbox().wait(
        [&] { return (chunk = ledger_.allocate(kWords * 8)).status == ChunkLedger::Status::kOk; },
        test::patience());
    if (chunk.status == ChunkLedger::Status::kOk) std::ranges::fill(words(chunk.chunk), stamp);
    return chunk.chunk;
  }

  void send(const SimpleQueue<Message>& queue, SimpleQueue<Message>::Producer& end,
            const Message& message) {
    const std::uint32_t lane = ledger_.add_lane(queue.popped(ledger_.process()));
    const std::uint64_t ticket = end.pushed();
    EXPECT_EQ(end.put(message, test::patience()), QueueStatus::kOk);
    ledger_.sent(lane, ticket, message.chunk.id);
    ledger_.release(message.chunk.id);
  }

  Message receive(SimpleQueue<Message>::Consumer& end) {
    Message message{};
    bool claimed = false;
    end.doorbell().wait(
        [&] {
          return end.try_get(message, [&](const Message& taken) {
            claimed = ledger_.claim(taken.chunk);
          }) == QueueStatus::kOk;
        },
        test::patience());
    EXPECT_TRUE(claimed);
    return message;
  }

  void drop(ChunkHandle chunk) { ledger_.release(chunk.id); }

  bool idle() {
    ledger_.collect();
    return ledger_.bytes_in_use() == 0;
  }

 private:
  Doorbell& inbox() { return ledger_.table().inboxes()[ledger_.process()]; }

  const Arena& arena_;
  ChunkLedger ledger_;
};

/// The region has room for four chunks, so each one is written again as soon as the protocol
/// allows. ThreadSanitizer sees whether that is too soon.
TEST(ChunkThreads, WriteAChunkAgainOnlyWhenItsReadersAreDone) {
  Arena arena = Arena::create("threads", std::size_t{256} << 10);
  const ChunkTable table =
      ChunkTable::create(arena, {.processes = 3, .chunks = 4, .region_bytes = 4096});
  const auto queue_to = [&](std::uint32_t reader) {
    return SimpleQueue<Message>::create(
        arena, "to " + std::to_string(reader),
        {.producers = 3, .capacity = 2, .bells = table.inboxes(), .consumer = reader});
  };
  const auto to_1 = queue_to(1);
  const auto to_2 = queue_to(2);

  std::thread writer([&] {
    Player self(arena, table, 0);
    auto out = to_1.producer(0);
    for (std::uint64_t i = 0; i < kMessages; ++i) self.send(to_1, out, {self.make(i), i});
    while (!self.idle()) std::this_thread::yield();
  });
  std::thread forwarder([&] {
    Player self(arena, table, 1);
    auto in = to_1.consumer();
    auto out = to_2.producer(1);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Message message = self.receive(in);
      EXPECT_EQ(self.words(message.chunk)[0], i);
      self.send(to_2, out, message);
    }
    while (!self.idle() || out.popped() != kMessages) std::this_thread::yield();
    self.idle();
  });
  std::thread reader([&] {
    Player self(arena, table, 2);
    auto in = to_2.consumer();
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      const Message message = self.receive(in);
      const auto words = self.words(message.chunk);
      EXPECT_TRUE(std::ranges::all_of(words, [&](std::uint64_t word) { return word == i; }));
      self.drop(message.chunk);
    }
  });
  writer.join();
  forwarder.join();
  reader.join();
}

}  // namespace
}  // namespace passel::shm
