#include <signal.h>
#include <sys/time.h>

#include <atomic>

#include "passel/shm/queue.h"
#include "support.h"

namespace passel::shm {
namespace {

using std::chrono::milliseconds;

// A handler's counter; nothing but the handler writes it.
std::atomic<int> signals_seen{0};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// A signal every 100 us, with a handler and without SA_RESTART, so that system calls return EINTR.
class SignalStorm {
 public:
  SignalStorm() {
    struct sigaction action {};
    action.sa_handler = [](int) { signals_seen.fetch_add(1); };
    ::sigaction(SIGALRM, &action, &before_);
    set_timer(100);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;
  ~SignalStorm() {
    set_timer(0);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  static void set_timer(suseconds_t period_us) {
    const itimerval timer{.it_interval = {0, period_us}, .it_value = {0, period_us}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }

  struct sigaction before_ {};
};

/// The storm outlasts the waits: one that began anew at each signal would never end.
TEST(ASignalStorm, NeitherStretchesNorCutsADeadline) {
  Arena arena = Arena::create("test", 1 << 14);
  const auto queue = SimpleQueue<int>::create(arena, "queue", {.producers = 1, .capacity = 1});
  auto producer = queue.producer(0);
  auto consumer = queue.consumer();
  signals_seen.store(0);
  const SignalStorm storm;
  int value = 0;
  Deadline deadline = after(milliseconds(120));  // more than two slices
  EXPECT_EQ(consumer.get(value, deadline), QueueStatus::kTimeout);
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_GT(signals_seen.load(), 1);

  ASSERT_EQ(producer.try_put(1), QueueStatus::kOk);
  deadline = after(milliseconds(120));
  EXPECT_EQ(producer.put(2, deadline), QueueStatus::kTimeout);
  EXPECT_GE(Clock::now(), deadline);
  EXPECT_EQ(consumer.get(value, test::patience()), QueueStatus::kOk);
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace passel::shm
