#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "passel/shm/queue.h"
#include "support.h"

namespace passel::shm {
namespace {

constexpr std::uint32_t kProducers = 3;
constexpr std::uint32_t kCapacity = 4;

using Queue = SimpleQueue<std::uint64_t>;

/// What a SimpleQueue has to do, with standard containers.
struct Model {
  std::vector<std::deque<std::uint64_t>> lanes{kProducers};
  bool closed = false;

  QueueStatus put(std::uint32_t producer, std::uint64_t value) {
    if (closed) return QueueStatus::kClosed;
    if (lanes[producer].size() == kCapacity) return QueueStatus::kFull;
    lanes[producer].push_back(value);
    return QueueStatus::kOk;
  }

  /// The lane that `value` may come from; each value is put once.
  std::optional<std::uint32_t> take(std::uint64_t value) {
    for (std::uint32_t i = 0; i < kProducers; ++i) {
      if (lanes[i].empty() || lanes[i].front() != value) continue;
      lanes[i].pop_front();
      return i;
    }
    return std::nullopt;
  }

  [[nodiscard]] bool empty() const {
    return std::ranges::all_of(lanes, [](const auto& lane) { return lane.empty(); });
  }
};

class Walk {
 public:
  explicit Walk(std::uint32_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < kProducers; ++i) producers_.push_back(queue_.producer(i));
  }

  void step() {
    const std::uint32_t index = random_() % kProducers;
    switch (random_() % 16) {
      case 0:  // a producer is killed and respawned
        queue_.reset_producer(index);
        producers_[index] = queue_.producer(index);
        break;
      case 1:  // the consumer is replaced in good order
        consumer_ = queue_.consumer();
        break;
      case 2:
        if (random_() % 32 != 0) break;
        queue_.close();
        model_.closed = true;
        break;
      case 3:  // the consumer is killed and respawned
        if (random_() % 32 != 0) break;
        queue_.reset();
        model_ = Model();
        consumer_ = queue_.consumer();
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
        put(index);
        break;
      default:
        get();
    }
    ASSERT_EQ(consumer_.empty(), model_.empty());
    ASSERT_EQ(queue_.closed(), model_.closed);
  }

 private:
  void put(std::uint32_t index) {
    const bool blocking = random_() % 2 != 0;
    const QueueStatus status =
        blocking ? producers_[index].put(next_, Clock::now()) : producers_[index].try_put(next_);
    QueueStatus expected = model_.put(index, next_++);
    if (blocking && expected == QueueStatus::kFull) expected = QueueStatus::kTimeout;
    ASSERT_EQ(status, expected);
  }

  void get() {
    const bool blocking = random_() % 2 != 0;
    std::uint64_t value = 0;
    const QueueStatus status =
        blocking ? consumer_.get(value, Clock::now()) : consumer_.try_get(value);
    if (model_.empty()) {
      const QueueStatus nothing = blocking ? QueueStatus::kTimeout : QueueStatus::kEmpty;
      ASSERT_EQ(status, model_.closed ? QueueStatus::kClosed : nothing);
      return;
    }
    ASSERT_EQ(status, QueueStatus::kOk);
    ASSERT_TRUE(model_.take(value)) << value << " is at the front of no producer's entries";
  }

  std::mt19937 random_;
  Arena arena_ = Arena::create("model", 1 << 16);
  Queue queue_ = Queue::create(arena_, "queue", {.producers = kProducers, .capacity = kCapacity});
  Model model_;
  std::vector<Queue::Producer> producers_;
  Queue::Consumer consumer_ = queue_.consumer();
  std::uint64_t next_ = 1;
};

TEST(SimpleQueueModel, DoesAsItsModelInAnyOrderOfCalls) {
  for (const std::uint32_t seed : {21U, 22U, 23U, 24U, 25U, 26U, 27U, 28U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Walk walk(seed);
    for (int i = 0; i < 20'000 && !::testing::Test::HasFatalFailure(); ++i) walk.step();
  }
}

}  // namespace
}  // namespace passel::shm
