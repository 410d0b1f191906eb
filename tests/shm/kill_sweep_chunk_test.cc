#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "kill_sweep.h"
#include "passel/shm/chunk_ledger.h"
#include "passel/shm/queue.h"

namespace passel::shm {
namespace {

using test::KillSweep;

constexpr std::uint32_t kParent = 0;
constexpr std::uint32_t kVictim = 1;
constexpr std::uint32_t kOther = 2;
constexpr std::uint32_t kProcesses = 3;
constexpr std::uint64_t kRegion = std::uint64_t{16} << 10;
constexpr std::size_t kBytes = 512;

/// Three processes with a queue to each, and tensors' worth of bytes that travel between them. The
/// victim's operation runs in a fork, so its books here stay as they were before: a death.
class ChunkScene {
 public:
  ChunkScene() {
    for (std::uint32_t p = 0; p < kProcesses; ++p) {
      queues_.push_back(SimpleQueue<ChunkHandle>::create(
          arena_, "to " + std::to_string(p),
          {.producers = kProcesses, .capacity = 4, .bells = table_.inboxes(), .consumer = p}));
    }
    for (std::uint32_t p = 0; p < kProcesses; ++p) start(p);
  }

  /// What the kills are to be placed between: all blocks, but not the arena's directory.
  std::span<const std::byte> shared() const {
    const auto first = static_cast<std::size_t>(
        reinterpret_cast<std::byte*>(table_.inboxes().data()) - arena_.data());
    return {arena_.data() + first, arena_.size() - first};
  }

  /// A chunk of p's region whose bytes are all `value`.
  ChunkHandle make(std::uint32_t p, std::uint8_t value) {
    const auto chunk = ledger(p).allocate(kBytes);
    if (chunk.status == ChunkLedger::Status::kOk) std::memset(chunk.data, value, kBytes);
    return chunk.chunk;
  }
  void send(std::uint32_t from, std::uint32_t to, ChunkHandle chunk) {
    auto& producer = ends_[from].producers[to];
    const std::uint64_t ticket = producer.pushed();
    if (producer.try_put(chunk) == QueueStatus::kOk) {
      ledger(from).sent(ends_[from].lanes[to], ticket, chunk.id);
    }
  }
  std::optional<ChunkHandle> receive(std::uint32_t p) {
    ChunkHandle chunk{};
    bool claimed = false;
    const auto status = ends_[p].consumer->try_get(
        chunk, [&](const ChunkHandle& taken) { claimed = ledger(p).claim(taken); });
    if (status != QueueStatus::kOk) return std::nullopt;
    EXPECT_TRUE(claimed) << "a stale handle was delivered";
    return chunk;
  }
  ChunkLedger& ledger(std::uint32_t p) { return *ends_[p].ledger; }

  int undelivered_of_victim() const { return count(kVictim, kOther); }
  int waiting_for_victim() const { return count(kParent, kVictim); }

  void bury_victim() {
    for (std::uint32_t to = 0; to < kProcesses; ++to) {
      const std::uint32_t lane = ledger(kParent).add_lane(queues_[to].popped(kVictim));
      queues_[to].for_each_undelivered(kVictim,
                                       [&](const ChunkHandle& chunk, std::uint64_t ticket) {
                                         EXPECT_TRUE(ledger(kParent).adopt(lane, ticket, chunk));
                                       });
      queues_[to].reset_producer(kVictim);
    }
    ledger(kParent).forget(kVictim);
    start(kVictim);
  }

  /// What `p` gets has these values, in this order, and is not overwritten by anything that its
  /// sender's successor does.
  void expect_received(std::uint32_t p, const std::vector<std::uint8_t>& values) {
    std::vector<ChunkHandle> got;
    for (int i = 0; i < 4; ++i) make_and_drop(kVictim);
    while (const auto chunk = receive(p)) got.push_back(*chunk);
    for (int i = 0; i < 4; ++i) make_and_drop(kVictim);
    ASSERT_EQ(got.size(), values.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      for (std::size_t at = 0; at < kBytes; ++at) {
        ASSERT_EQ(std::to_integer<int>(arena_.data()[table_[got[i].id].offset + at]), values[i]);
      }
      ledger(p).release(got[i].id);
    }
  }

  void expect_nothing_leaked() {
    for (int round = 0; round < 2; ++round) {
      for (std::uint32_t p = 0; p < kProcesses; ++p) ledger(p).collect();
    }
    for (std::uint32_t p = 0; p < kProcesses; ++p) {
      EXPECT_EQ(ledger(p).bytes_in_use(), 0U) << "process " << p;
      const auto all = ledger(p).allocate(kRegion);
      EXPECT_EQ(all.status, ChunkLedger::Status::kOk) << "process " << p;
    }
  }

 private:
  struct Ends {
    std::unique_ptr<ChunkLedger> ledger;
    std::optional<SimpleQueue<ChunkHandle>::Consumer> consumer;
    std::vector<SimpleQueue<ChunkHandle>::Producer> producers;  // [to]
    std::vector<std::uint32_t> lanes;                           // [to]
  };

  void start(std::uint32_t p) {
    Ends ends;
    ends.ledger = std::make_unique<ChunkLedger>(arena_, table_, p);
    ends.consumer.emplace(queues_[p].consumer());
    for (const auto& queue : queues_) {
      ends.producers.push_back(queue.producer(p));
      ends.lanes.push_back(ends.ledger->add_lane(queue.popped(p)));
    }
    ends_[p] = std::move(ends);
  }

  int count(std::uint32_t from, std::uint32_t to) const {
    int entries = 0;
    queues_[to].for_each_undelivered(from, [&](const ChunkHandle&, std::uint64_t) { ++entries; });
    return entries;
  }

  void make_and_drop(std::uint32_t p) {
    const auto chunk = ledger(p).allocate(kBytes);
    if (chunk.status != ChunkLedger::Status::kOk) return;
    std::memset(chunk.data, 0xEE, kBytes);
    ledger(p).release(chunk.chunk.id);
  }

  Arena arena_ = Arena::create("sweep", std::size_t{128} << 10);
  ChunkTable table_ =
      ChunkTable::create(arena_, {.processes = kProcesses, .chunks = 8, .region_bytes = kRegion});
  std::vector<SimpleQueue<ChunkHandle>> queues_;  // [to]
  std::array<Ends, kProcesses> ends_;
};

TEST_F(KillSweep, OfASenderDeliversItsChunkWholeOrNotAtAll) {
  sweep_changes([] { return std::make_unique<ChunkScene>(); },
                [](ChunkScene& scene) {
                  const ChunkHandle chunk = scene.make(kVictim, 7);
                  scene.send(kVictim, kOther, chunk);
                  scene.ledger(kVictim).release(chunk.id);
                },
                [published_before = false](ChunkScene& scene, bool finished) mutable {
                  const bool published = scene.undelivered_of_victim() > 0;
                  EXPECT_TRUE(!published_before || published) << "what was sent came back";
                  EXPECT_TRUE(!finished || published);
                  published_before = published;
                  scene.bury_victim();
                  scene.expect_received(kOther, published ? std::vector<std::uint8_t>{7}
                                                          : std::vector<std::uint8_t>{});
                  scene.expect_nothing_leaked();
                });
}

TEST_F(KillSweep, OfAReceiverLeavesItsChunkToTheSuccessorOrFreesIt) {
  sweep_changes(
      [] {
        auto scene = std::make_unique<ChunkScene>();
        const ChunkHandle chunk = scene->make(kParent, 5);
        scene->send(kParent, kVictim, chunk);
        scene->ledger(kParent).release(chunk.id);
        return scene;
      },
      [](ChunkScene& scene) {
        const auto chunk = scene.receive(kVictim);
        if (chunk) scene.ledger(kVictim).release(chunk->id);
      },
      [](ChunkScene& scene, bool finished) {
        scene.bury_victim();
        const bool left = scene.waiting_for_victim() > 0;
        EXPECT_TRUE(!finished || !left);
        scene.expect_received(kVictim,
                              left ? std::vector<std::uint8_t>{5} : std::vector<std::uint8_t>{});
        scene.expect_nothing_leaked();
      });
}

TEST_F(KillSweep, OfAForwarderKeepsTheChunkForTheNextReceiver) {
  sweep_changes(
      [] {
        auto scene = std::make_unique<ChunkScene>();
        const ChunkHandle chunk = scene->make(kParent, 9);
        scene->send(kParent, kVictim, chunk);
        scene->ledger(kParent).release(chunk.id);
        return scene;
      },
      [](ChunkScene& scene) {
        const auto chunk = scene.receive(kVictim);
        if (!chunk) return;
        scene.send(kVictim, kOther, *chunk);
        scene.ledger(kVictim).release(chunk->id);
      },
      [](ChunkScene& scene, bool finished) {
        const bool forwarded = scene.undelivered_of_victim() > 0;
        const bool left = scene.waiting_for_victim() > 0;
        EXPECT_TRUE(!finished || forwarded);
        EXPECT_FALSE(forwarded && left);
        scene.bury_victim();
        // The parent would overwrite it now if it took it for free.
        const ChunkHandle next = scene.make(kParent, 0xDD);
        scene.ledger(kParent).release(next.id);
        scene.expect_received(
            kOther, forwarded ? std::vector<std::uint8_t>{9} : std::vector<std::uint8_t>{});
        scene.expect_received(kVictim,
                              left ? std::vector<std::uint8_t>{9} : std::vector<std::uint8_t>{});
        scene.expect_nothing_leaked();
      });
}

}  // namespace
}  // namespace passel::shm
