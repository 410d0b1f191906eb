#include "passel/shm/doorbell.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support.h"

namespace passel::shm {
namespace {

using std::chrono::milliseconds;

TEST(Doorbell, ReturnsAtOnceWhenTheConditionHolds) {
  Doorbell bell;
  int looks = 0;
  EXPECT_TRUE(bell.wait([&] { return ++looks == 1; }, Clock::now()));
  EXPECT_EQ(looks, 1);
}

TEST(Doorbell, ReturnsFalseAtTheDeadlineAndNotBefore) {
  Doorbell bell;
  const Deadline deadline = after(milliseconds(120));  // more than two slices
  EXPECT_FALSE(bell.wait([] { return false; }, deadline));
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Doorbell, LooksOnceMoreAtTheDeadline) {
  Doorbell bell;
  int looks = 0;
  EXPECT_TRUE(bell.wait([&] { return ++looks == 3; }, Clock::now(), 0));
}

TEST(Deadline, SaturatesInsteadOfWrapping) {
  EXPECT_EQ(after(std::chrono::nanoseconds::max()), kNoDeadline);
  EXPECT_LT(after(std::chrono::hours(1)), kNoDeadline);
}

TEST(Doorbell, CarriesAPingPongOfSleepers) {
  Doorbell ping;
  Doorbell pong;
  std::atomic<int> turn{0};
  constexpr int kRounds = 2000;
  std::thread peer([&] {
    for (int i = 0; i < kRounds; ++i) {
      ping.wait([&] { return turn.load() == 2 * i + 1; }, kNoDeadline, 0);
      turn.store(2 * i + 2);
      pong.ring();
    }
  });
  bool in_time = true;
  for (int i = 0; i < kRounds && in_time; ++i) {
    turn.store(2 * i + 1);
    ping.ring();
    in_time = pong.wait([&] { return turn.load() == 2 * i + 2; }, test::patience(), 0);
  }
  EXPECT_TRUE(in_time);
  peer.join();
  EXPECT_EQ(turn.load(), 2 * kRounds);
}

TEST(Doorbell, WakesEveryWaiter) {
  for (const bool by_supervisor : {false, true}) {
    Doorbell bell;
    std::atomic<bool> open{false};
    std::atomic<int> through{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i) {
      waiters.emplace_back([&] {
        if (bell.wait([&] { return open.load(); }, test::patience(), 0)) ++through;
      });
    }
    open.store(true);
    by_supervisor ? bell.wake_all() : bell.ring();
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(through.load(), 4);
  }
}

/// The storm lasts until the wait is over: a wait that began anew at each signal would not end.
TEST(Doorbell, EndsAtItsDeadlineUnderAStormOfSignals) {
  struct sigaction action {};
  action.sa_handler = [](int) {};  // and no SA_RESTART: system calls return EINTR
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    Doorbell bell;
    EXPECT_FALSE(bell.wait([] { return false; }, after(milliseconds(200)), 0));
    over.store(true);
  });
  int signals = 0;
  for (; !over.load(); ++signals) {
    ::pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  waiter.join();
  EXPECT_GT(signals, 0);
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace passel::shm
