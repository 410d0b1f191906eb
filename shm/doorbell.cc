#include "passel/shm/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace passel::shm {
namespace {

// Not the PRIVATE operations: the word is shared between processes.
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void futex_wait_until(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                      Deadline until) noexcept {
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
  const timespec at{.tv_sec = static_cast<time_t>(since_boot / 1'000'000'000),
                    .tv_nsec = static_cast<long>(since_boot % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen, &at, nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace

void Doorbell::wake_sleepers() noexcept {
  // One wake for a burst of rings: the flag goes down here and not when the sleeper runs again.
  // Down before the bell, so that only flags of waiters who hold an older bell value are taken.
  sleeping_.store(0, std::memory_order_relaxed);
  wake_all();
}

void Doorbell::wake_all() noexcept {
  bell_.fetch_add(1, std::memory_order_release);  // pairs with the acquire in wait()
  futex_wake_all(bell_);
}

bool Doorbell::sleep(std::uint32_t seen, Deadline deadline) noexcept {
  const Deadline now = Clock::now();
  if (now >= deadline) return false;
  // A ring can be lost with the process that owed it; the slice bounds what that costs.
  futex_wait_until(bell_, seen, std::min(deadline, now + kSlice));
  return true;
}

}  // namespace passel::shm
