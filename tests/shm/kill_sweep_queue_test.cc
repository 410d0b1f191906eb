#include <memory>
#include <utility>

#include "kill_sweep_scene.h"

namespace passel::shm {
namespace {

using test::drain;
using test::expect_usable;
using test::KillSweep;
using test::kSweepCapacity;
using test::QueueScene;
using test::SweepEntry;

TEST_F(KillSweep, OfPutPublishesTheWholeEntryOrNothing) {
  bool published_before = false;
  sweep(
      [] {
        QueueScene scene(2);
        scene.raise_sleeper_flags();
        return scene;
      },
      [](QueueScene& scene) { scene.producer.put(SweepEntry::of(3)); },
      [&](const QueueScene& scene, bool finished) {
        scene.queue.reset_producer(0);
        const auto [from, to] = drain(scene, 1);
        EXPECT_EQ(from, 1U);
        const bool published = to == 4;
        EXPECT_TRUE(published || to == 3) << to;
        EXPECT_GE(published, published_before) << "what was published came back out";
        EXPECT_GE(published, finished);
        published_before = published;
        expect_usable(scene);
      });
}

TEST_F(KillSweep, OfGetLosesNoEntryBehindTheOneInHand) {
  sweep(
      [] {
        QueueScene scene(kSweepCapacity);
        scene.raise_sleeper_flags();
        return scene;
      },
      [](QueueScene& scene) {
        SweepEntry entry{};
        scene.consumer.get(entry);
      },
      [](const QueueScene& scene, bool finished) {
        const auto [from, to] = drain(scene, 1);
        EXPECT_EQ(to, kSweepCapacity + 1);
        EXPECT_TRUE(!finished || from == 2U) << from;
        expect_usable(scene);
      });
}

TEST_F(KillSweep, OfAPutThatFindsNoRoomChangesNothing) {
  sweep([] { return QueueScene(kSweepCapacity); },
        [](QueueScene& scene) { scene.producer.put(SweepEntry::of(9), Clock::now(), 0); },
        [](const QueueScene& scene, bool) {
          scene.queue.reset_producer(0);
          EXPECT_EQ(drain(scene, 1), std::pair(std::uint64_t{1}, kSweepCapacity + 1));
          expect_usable(scene);
        });
}

TEST_F(KillSweep, OfAGetThatFindsNothingChangesNothing) {
  sweep([] { return QueueScene(0); },
        [](QueueScene& scene) {
          SweepEntry entry{};
          scene.consumer.get(entry, Clock::now(), 0);
        },
        [](const QueueScene& scene, bool) {
          EXPECT_EQ(drain(scene, 0).first, 0U);
          expect_usable(scene);
        });
}

TEST_F(KillSweep, OfCloseLeavesAQueueThatCanBeClosedAgain) {
  sweep([] { return QueueScene(1); }, [](QueueScene& scene) { scene.queue.close(); },
        [](const QueueScene& scene, bool finished) {
          EXPECT_TRUE(!finished || scene.queue.closed());
          EXPECT_EQ(drain(scene, 1), std::pair(std::uint64_t{1}, std::uint64_t{2}));
          scene.queue.close();
          auto consumer = scene.queue.consumer();
          SweepEntry entry{};
          EXPECT_EQ(consumer.get(entry, test::patience()), QueueStatus::kClosed);
          scene.queue.reset();
          expect_usable(scene);
        });
}

/// A getter in another thread, asleep.
struct GetterAsleep {
  explicit GetterAsleep(const QueueScene::Queue& queue)
      : sleeper([this, consumer = queue.consumer()]() mutable {
          status = consumer.get(entry, test::patience());
        }) {}

  /// Waits until it has woken up and got an entry.
  SweepEntry result() {
    sleeper.join();
    EXPECT_EQ(status, QueueStatus::kOk);
    return entry;
  }

  SweepEntry entry{};
  QueueStatus status = QueueStatus::kEmpty;
  test::Sleeper sleeper;  // last: it writes into the others
};

struct SceneWithSleeper : QueueScene {
  SceneWithSleeper() : QueueScene(0, 1), getter(std::make_unique<GetterAsleep>(queue)) {}

  std::unique_ptr<GetterAsleep> getter;
};

/// Between the publishing store and the ring the dead owes the sleeper a wake-up.
TEST_F(KillSweep, OfPutLeavesNoSleeperBehind) {
  sweep([] { return SceneWithSleeper(); },
        [](QueueScene& scene) { scene.producer.put(SweepEntry::of(1)); },
        [](SceneWithSleeper& scene, bool) {
          // Published and not yet taken: nobody rings again, the sleeper's own slices have to do.
          // Otherwise a successor puts, which is its first entry or one too many.
          auto successor = scene.queue.producer(0);
          if (!successor.full()) (void)successor.try_put(SweepEntry::of(1));
          EXPECT_EQ(scene.getter->result(), SweepEntry::of(1));
        });
}

TEST_F(KillSweep, OfResetProducerCanBeFollowedByAnother) {
  sweep(
      [] {
        QueueScene scene(2);
        scene.raise_sleeper_flags();
        return scene;
      },
      [](QueueScene& scene) { scene.queue.reset_producer(0); },
      [](const QueueScene& scene, bool) {
        scene.queue.reset_producer(0);
        EXPECT_EQ(drain(scene, 1), std::pair(std::uint64_t{1}, std::uint64_t{3}));
        expect_usable(scene);
      });
}

TEST_F(KillSweep, OfResetLeavesAQueueThatCanBeResetAgain) {
  sweep(
      [] {
        QueueScene scene(kSweepCapacity);
        scene.raise_sleeper_flags();
        scene.queue.close();
        return scene;
      },
      [](QueueScene& scene) { scene.queue.reset(); },
      [](const QueueScene& scene, bool finished) {
        EXPECT_TRUE(!finished || !scene.queue.closed());
        scene.queue.reset();
        EXPECT_FALSE(scene.queue.closed());
        EXPECT_EQ(drain(scene, 0).first, 0U) << "an entry was left";
        expect_usable(scene);
      });
}

}  // namespace
}  // namespace passel::shm
