#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kill_sweep.h"
#include "passel/shm/buffer_pool.h"
#include "passel/shm/queue.h"

namespace passel::shm {
namespace {

using test::KillSweep;

constexpr std::uint32_t kBuffers = 4;
constexpr std::uint32_t kGrants = 3;

struct Buffer {
  std::array<std::uint64_t, 3> word;
  std::uint64_t checksum;
};

std::uint64_t word_of(const Lease& lease, std::size_t i) {
  return lease.generation * 1'000'003ULL + lease.incarnation * 10'007ULL + lease.buffer * 16ULL + i;
}

/// The parent's books and the memory it shares with one worker.
class PoolScene {
 public:
  /// Grants kGrants buffers; `done` of them were handed back before the sweep begins.
  explicit PoolScene(std::uint32_t done) {
    grant(kGrants);
    for (std::uint32_t i = 0; i < done; ++i) work();
  }

  /// The worker's part: takes a grant, fills the buffer, hands it back.
  void work() {
    Lease lease{};
    if (worker_grants_.get(lease, Clock::now(), 0) != QueueStatus::kOk) return;
    Buffer& buffer = buffers_[lease.buffer];
    buffer.checksum = 0;
    for (std::size_t i = 0; i < buffer.word.size(); ++i) {
      buffer.word[i] = word_of(lease, i);
      buffer.checksum += buffer.word[i];
    }
    worker_done_.put(lease, Clock::now(), 0);
  }

  void grant(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto lease = pool_.lease(0, incarnation_);
      ASSERT_TRUE(lease);
      granted_.push_back(*lease);
      ASSERT_EQ(grants_end_.try_put(*lease), QueueStatus::kOk);
    }
  }

  /// Takes what came back and says how many. What is granted in order comes back in order and
  /// whole.
  std::uint32_t drain() {
    std::uint32_t count = 0;
    for (Lease lease{}; done_end_.try_get(lease) == QueueStatus::kOk; ++count) {
      EXPECT_EQ(lease, granted_.at(count)) << "out of order";
      EXPECT_TRUE(pool_.accept(lease)) << "delivered twice, or to the wrong life of the buffer";
      EXPECT_FALSE(pool_.accept(lease));
      const Buffer& buffer = buffers_[lease.buffer];
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < buffer.word.size(); ++i) {
        EXPECT_EQ(buffer.word[i], word_of(lease, i)) << "torn";
        sum += buffer.word[i];
      }
      EXPECT_EQ(buffer.checksum, sum) << "torn";
      expect_conserved();
      EXPECT_TRUE(pool_.give_back(lease));
    }
    return count;
  }

  /// What the parent does once the pidfd of its worker is readable.
  void bury(std::uint32_t delivered) {
    EXPECT_EQ(pool_.reclaim(0, incarnation_), granted_.size() - delivered);
    EXPECT_EQ(pool_.free(), kBuffers);
    expect_conserved();
    grants_.reset();
    done_.reset_producer(0);
    grants_end_ = grants_.producer(0);
    worker_grants_ = grants_.consumer();
    worker_done_ = done_.producer(0);
    ++incarnation_;
  }

  /// The next life of the worker has all buffers, and leases of the former one are worth nothing.
  void expect_usable() {
    const std::vector<Lease> former = std::exchange(granted_, {});
    grant(kBuffers);
    for (const Lease& lease : former) {
      EXPECT_FALSE(pool_.accept(lease));
      EXPECT_FALSE(pool_.give_back(lease));
    }
    for (std::uint32_t i = 0; i < kBuffers; ++i) work();
    EXPECT_EQ(drain(), kBuffers);
    EXPECT_EQ(pool_.free(), kBuffers);
  }

 private:
  void expect_conserved() const {
    EXPECT_EQ(pool_.free() + pool_.leased() + pool_.held(), kBuffers);
  }

  using Queue = SimpleQueue<Lease>;

  Arena arena_ = Arena::create("sweep", 1 << 14);
  std::span<Buffer> buffers_ = arena_.construct_array<Buffer>("buffers", kBuffers);
  Queue grants_ = Queue::create(arena_, "grants", {.producers = 1, .capacity = kBuffers});
  Queue done_ = Queue::create(arena_, "done", {.producers = 1, .capacity = kBuffers});
  Queue::Producer grants_end_ = grants_.producer(0);
  Queue::Consumer done_end_ = done_.consumer();
  Queue::Consumer worker_grants_ = grants_.consumer();
  Queue::Producer worker_done_ = done_.producer(0);
  BufferPool pool_{kBuffers};
  std::uint32_t incarnation_ = 1;
  std::vector<Lease> granted_;
};

/// For each number of buffers handed back before: free + leased + held stays the whole, each lease
/// comes back once or is reclaimed, in order and whole.
TEST_F(KillSweep, OfAHandOverLosesAndDoublesNoBuffer) {
  for (std::uint32_t done = 0; done < 2; ++done) {
    sweep([&] { return PoolScene(done); }, [](PoolScene& scene) { scene.work(); },
          [&](PoolScene& scene, bool finished) {
            const std::uint32_t delivered = scene.drain();
            EXPECT_TRUE(delivered == done + 1 || (delivered == done && !finished)) << delivered;
            scene.bury(delivered);
            scene.expect_usable();
          });
    if (HasFailure() || IsSkipped()) return;
  }
}

}  // namespace
}  // namespace passel::shm
