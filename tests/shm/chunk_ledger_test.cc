#include "passel/shm/chunk_ledger.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "passel/shm/queue.h"
#include "shm/support.h"

namespace passel::shm {
namespace {

constexpr std::uint32_t kProcesses = 3;
constexpr std::uint64_t kRegion = std::uint64_t{256} << 10;

struct Message {
  ChunkHandle chunk;
  std::uint64_t stamp;  ///< what all words of the chunk are to hold
  std::uint64_t bytes;
};

/// A few processes of one run, played by one thread: each with its ledger, the chunks it has, and
/// a queue to every other. Chunks are stamped when they are made, and the stamps read whenever a
/// chunk is used, so that one given away too early shows.
class Play {
 public:
  Play()
      : arena_(Arena::create("play", std::size_t{4} << 20)),
        table_(ChunkTable::create(
            arena_, {.processes = kProcesses, .chunks = 32, .region_bytes = kRegion})) {
    for (std::uint32_t to = 0; to < kProcesses; ++to) {
      queues_.push_back(SimpleQueue<Message>::create(
          arena_, "to " + std::to_string(to),
          {.producers = kProcesses, .capacity = 4, .bells = table_.inboxes(), .consumer = to}));
    }
    for (std::uint32_t p = 0; p < kProcesses; ++p) start(p);
  }

  ChunkLedger& ledger(std::uint32_t p) { return *players_[p].ledger; }
  std::size_t has(std::uint32_t p) const { return players_[p].held.size(); }

  void allocate(std::uint32_t p, std::uint64_t bytes) {
    const ChunkLedger::Allocation chunk = ledger(p).allocate(bytes);
    if (chunk.status != ChunkLedger::Status::kOk) return;
    players_[p].held.push_back({chunk.chunk, ++stamp_, bytes});
    fill(players_[p].held.back());
  }

  void send(std::uint32_t from, std::uint32_t to, std::size_t which) {
    Player& player = players_[from];
    const Message& message = player.held[which];
    auto& producer = player.producers[to];
    const std::uint64_t ticket = producer.pushed();
    if (producer.try_put(message) != QueueStatus::kOk) return;
    ledger(from).sent(player.lanes[to], ticket, message.chunk.id);
  }

  void receive(std::uint32_t p) {
    Message message{};
    bool claimed = false;
    const auto status = players_[p].consumer->try_get(
        message, [&](const Message& taken) { claimed = ledger(p).claim(taken.chunk); });
    if (status != QueueStatus::kOk) return;
    ASSERT_TRUE(claimed) << "a message carried a stale handle";
    players_[p].held.push_back(message);
    check(message);
  }

  void drop(std::uint32_t p, std::size_t which) {
    check(players_[p].held[which]);
    ledger(p).release(players_[p].held[which].chunk.id);
    players_[p].held.erase(players_[p].held.begin() + static_cast<std::ptrdiff_t>(which));
  }

  /// SIGKILL and respawn of a worker, as the parent sees to it.
  void replace(std::uint32_t p) {
    for (std::uint32_t to = 0; to < kProcesses; ++to) {
      const std::uint32_t lane = ledger(0).add_lane(queues_[to].popped(p));
      queues_[to].for_each_undelivered(p, [&](const Message& message, std::uint64_t ticket) {
        EXPECT_TRUE(ledger(0).adopt(lane, ticket, message.chunk));
      });
      queues_[to].reset_producer(p);
    }
    ledger(0).forget(p);
    start(p);
  }

  void check_all() {
    for (const Player& player : players_) {
      for (const Message& message : player.held) check(message);
    }
  }

  /// Everybody takes and drops all there is; what is then still in use was leaked.
  void wind_up() {
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t p = 0; p < kProcesses; ++p) {
        for (std::uint32_t i = 0; i < 64; ++i) receive(p);
        while (has(p) > 0) drop(p, 0);
      }
      for (std::uint32_t p = 0; p < kProcesses; ++p) ledger(p).collect();
    }
    for (std::uint32_t p = 0; p < kProcesses; ++p) {
      ledger(p).collect();
      EXPECT_EQ(ledger(p).bytes_in_use(), 0U) << "process " << p;
      EXPECT_EQ(ledger(p).allocate(kRegion).status, ChunkLedger::Status::kOk)
          << "the whole region of process " << p << " in one piece";
    }
  }

 private:
  struct Player {
    std::unique_ptr<ChunkLedger> ledger;
    std::optional<SimpleQueue<Message>::Consumer> consumer;
    std::vector<SimpleQueue<Message>::Producer> producers;  // [to]
    std::vector<std::uint32_t> lanes;                       // [to]
    std::vector<Message> held;
  };

  void start(std::uint32_t p) {
    Player player;
    player.ledger = std::make_unique<ChunkLedger>(arena_, table_, p);
    player.consumer.emplace(queues_[p].consumer());
    for (const auto& queue : queues_) {
      player.producers.push_back(queue.producer(p));
      player.lanes.push_back(player.ledger->add_lane(queue.popped(p)));
    }
    players_[p] = std::move(player);
  }

  std::span<std::uint64_t> words(const Message& message) {
    const ChunkRecord& record = table_[message.chunk.id];
    auto* const first = reinterpret_cast<std::uint64_t*>(arena_.at(record.offset, message.bytes));
    return {first, message.bytes / sizeof(std::uint64_t)};
  }
  void fill(const Message& message) { std::ranges::fill(words(message), message.stamp); }
  void check(const Message& message) {
    for (const std::uint64_t word : words(message)) {
      ASSERT_EQ(word, message.stamp) << "chunk " << message.chunk.id << " was given away in use";
    }
  }

  Arena arena_;
  ChunkTable table_;
  std::vector<SimpleQueue<Message>> queues_;  // [to]
  std::array<Player, kProcesses> players_;
  std::uint64_t stamp_ = 0;
};

class ChunkLedgerPlay : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(ChunkLedgerPlay, NeverGivesAChunkAwayInUseAndLeaksNoneUnderDeaths) {
  std::mt19937_64 random(GetParam());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Play play;
  for (int step = 0; step < 20'000 && !::testing::Test::HasFatalFailure(); ++step) {
    const auto p = static_cast<std::uint32_t>(below(kProcesses));
    const std::uint64_t what = below(1000);
    if (what < 250) {
      play.allocate(p, 64 + below(4) * 8000 + below(5) * 64);
    } else if (what < 500) {
      if (play.has(p) > 0) {
        play.send(p, static_cast<std::uint32_t>(below(kProcesses)), below(play.has(p)));
      }
    } else if (what < 740) {
      play.receive(p);
    } else if (what < 990) {
      if (play.has(p) > 0) play.drop(p, below(play.has(p)));
    } else if (p != 0) {
      play.replace(p);
    }
    if (step % 100 == 0) play.check_all();
  }
  play.wind_up();
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChunkLedgerPlay, ::testing::Range<std::uint64_t>(1, 13));

TEST(ChunkLedger, CountsAHandleOfAFreedChunkAsStale) {
  Play play;
  const auto first = play.ledger(0).allocate(100);
  play.ledger(0).release(first.chunk.id);
  EXPECT_FALSE(play.ledger(1).claim(first.chunk));
  const auto second = play.ledger(0).allocate(100);
  EXPECT_EQ(second.chunk.id, first.chunk.id) << "the last one freed is the first one used";
  EXPECT_FALSE(play.ledger(1).claim(first.chunk)) << "never another message's bytes";
  EXPECT_TRUE(play.ledger(1).claim(second.chunk));
}

TEST(ChunkLedger, RefusesHandlesOfChunksThatDoNotExist) {
  Play play;
  EXPECT_FALSE(play.ledger(0).claim({~0U, 1}));
  EXPECT_FALSE(play.ledger(0).claim({kProcesses * 32, 1}));
}

TEST(ChunkLedger, TellsWhyThereIsNoRoom) {
  Play play;
  EXPECT_EQ(play.ledger(1).allocate(kRegion + 1).status, ChunkLedger::Status::kTooLarge);
  const auto all = play.ledger(1).allocate(kRegion);
  ASSERT_EQ(all.status, ChunkLedger::Status::kOk);
  EXPECT_EQ(play.ledger(1).allocate(1).status, ChunkLedger::Status::kOwn);
  ASSERT_TRUE(play.ledger(2).claim(all.chunk));
  play.ledger(1).release(all.chunk.id);
  EXPECT_EQ(play.ledger(1).allocate(1).status, ChunkLedger::Status::kLent);
  play.ledger(2).release(all.chunk.id);
  EXPECT_EQ(play.ledger(1).allocate(1).status, ChunkLedger::Status::kOk);
}

TEST(ChunkLedger, TakesMemoryOnlyAsItIsUsed) {
  const Arena arena = [] {
    Arena made = Arena::create("sparse", std::size_t{300} << 20);
    ChunkTable::create(made,
                       {.processes = 2, .chunks = 16, .region_bytes = std::uint64_t{128} << 20});
    return made;
  }();
  ChunkLedger ledger(arena, ChunkTable::open(arena), 1);
  const auto blocks = [&] {
    struct stat status {};
    ::fstat(arena.fd(), &status);
    return static_cast<std::uint64_t>(status.st_blocks) * 512;
  };
  EXPECT_LT(blocks(), std::uint64_t{8} << 20);
  ledger.allocate(std::uint64_t{32} << 20);
  EXPECT_GE(blocks(), std::uint64_t{32} << 20);
  EXPECT_LT(blocks(), std::uint64_t{48} << 20);
}

}  // namespace
}  // namespace passel::shm
