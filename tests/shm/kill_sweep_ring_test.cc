#include <array>
#include <atomic>
#include <memory>

#include "kill_sweep.h"
#include "passel/shm/ring.h"

namespace passel::shm {
namespace {

using test::KillSweep;

using Words = std::array<std::uint64_t, 4>;

Words words_of(std::uint64_t value) {
  return {value, ~value, value, ~value};
}

/// A bare ring that holds the entries 0 to `filled` - 1.
class RingScene {
 public:
  static constexpr std::uint64_t kCapacity = 4;

  explicit RingScene(std::uint64_t filled) {
    auto end = producer();
    for (std::uint64_t i = 0; i < filled; ++i) end.try_push(words_of(i));
  }

  [[nodiscard]] RingProducer<Words> producer() const { return {indices_, slots_, kCapacity}; }
  [[nodiscard]] RingConsumer<Words> consumer() const { return {indices_, slots_, kCapacity}; }

  /// Takes all entries as a successor does: whole, and one after the other from `next` on. Returns
  /// the number that would come next.
  [[nodiscard]] std::uint64_t drain(std::uint64_t next) const {
    auto end = consumer();
    for (Words words{}; end.try_pop(words); ++next) {
      EXPECT_EQ(words, words_of(next)) << "torn or out of order";
    }
    return next;
  }

  [[nodiscard]] std::uint64_t taken() const { return indices_->head.load(); }

  /// Successors fill the whole ring and empty it.
  void expect_usable(std::uint64_t next) const {
    auto end = producer();
    for (std::uint64_t i = 0; i < kCapacity; ++i) EXPECT_TRUE(end.try_push(words_of(next + i)));
    EXPECT_FALSE(end.try_push(words_of(0)));
    EXPECT_EQ(drain(next), next + kCapacity);
  }

 private:
  Arena arena_ = Arena::create("sweep", 1 << 14);
  RingIndices* indices_ = arena_.construct<RingIndices>("indices");
  Words* slots_ = arena_.construct_array<Words>("slots", kCapacity).data();
};

TEST_F(KillSweep, OfPushPublishesTheWholeEntryOrNothing) {
  bool published_before = false;
  sweep([] { return RingScene(2); },
        [](const RingScene& scene) { scene.producer().try_push(words_of(2)); },
        [&](const RingScene& scene, bool finished) {
          const std::uint64_t next = scene.drain(0);
          const bool published = next == 3;
          EXPECT_TRUE(published || next == 2) << next;
          EXPECT_GE(published, published_before) << "what was published came back out";
          EXPECT_GE(published, finished);
          published_before = published;
          scene.expect_usable(next);
        });
}

TEST_F(KillSweep, OfPopLosesNoEntryBehindTheOneInHand) {
  sweep([] { return RingScene(RingScene::kCapacity); },
        [](const RingScene& scene) {
          Words words{};
          scene.consumer().try_pop(words);
        },
        [](const RingScene& scene, bool finished) {
          const std::uint64_t first = scene.taken();
          EXPECT_TRUE(first == 1 || (first == 0 && !finished)) << first;
          EXPECT_EQ(scene.drain(first), RingScene::kCapacity);
          scene.expect_usable(RingScene::kCapacity);
        });
}

TEST_F(KillSweep, OfPushIntoAFullRingChangesNothing) {
  sweep([] { return RingScene(RingScene::kCapacity); },
        [](const RingScene& scene) { scene.producer().try_push(words_of(9)); },
        [](const RingScene& scene, bool) {
          EXPECT_EQ(scene.drain(0), RingScene::kCapacity);
          scene.expect_usable(RingScene::kCapacity);
        });
}

/// A doorbell and what its waiters wait for.
class BellScene {
 public:
  void publish(std::uint32_t value) const { words_->value.store(value); }
  [[nodiscard]] Doorbell& bell() const { return words_->bell; }

  [[nodiscard]] bool wait_for(std::uint32_t value, Deadline deadline) const {
    return bell().wait([&] { return words_->value.load() == value; }, deadline, 0);
  }

  [[nodiscard]] std::unique_ptr<test::Sleeper> sleeper_for(std::uint32_t value) const {
    return std::make_unique<test::Sleeper>(
        [this, value] { EXPECT_TRUE(wait_for(value, test::patience())); });
  }

  /// The bell wakes those who live on.
  void expect_usable() const {
    const auto sleeper = sleeper_for(100);
    publish(100);
    bell().ring();
    sleeper->join();
  }

 private:
  struct Shared {
    std::atomic<std::uint32_t> value;
    Doorbell bell;
  };

  Arena arena_ = Arena::create("sweep", 1 << 14);
  Shared* words_ = arena_.construct<Shared>("words");
};

TEST_F(KillSweep, OfRingIsMadeUpForByTheSupervisor) {
  sweep(
      [] {
        auto scene = std::make_unique<BellScene>();
        auto sleeper = scene->sleeper_for(1);
        return std::pair(std::move(scene), std::move(sleeper));
      },
      [](auto& scene) {
        scene.first->publish(1);
        scene.first->bell().ring();
      },
      [](auto& scene, bool) {
        scene.first->publish(1);  // where the dead had not yet
        scene.first->bell().wake_all();
        scene.second->join();
        scene.first->expect_usable();
      });
}

TEST_F(KillSweep, OfAWaitLeavesABellThatWakesOthers) {
  sweep([] { return std::make_unique<BellScene>(); },
        [](const auto& scene) { (void)scene->wait_for(1, Clock::now()); },
        [](const auto& scene, bool) { scene->expect_usable(); });
}

TEST_F(KillSweep, OfAWaitThatSleepsLeavesABellThatWakesOthers) {
  sweep([] { return std::make_unique<BellScene>(); },
        [](const auto& scene) { (void)scene->wait_for(1, after(std::chrono::microseconds(300))); },
        [](const auto& scene, bool) { scene->expect_usable(); });
}

}  // namespace
}  // namespace passel::shm
