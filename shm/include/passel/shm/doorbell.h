#pragma once

#include <atomic>
#include <cstdint>

#include "passel/shm/deadline.h"

namespace passel::shm {

/// Orders a store before it with a load after it, which no weaker fence does.
inline void full_fence() noexcept {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// ThreadSanitizer does not model fences. No payload is published through this one: payloads go
// through release stores and acquire loads, which it does model.
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

/// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A futex eventcount: lets a process sleep until a condition over shared memory may have changed.
///
/// Lives in shared memory. Any process may ring; any number may wait. It holds no condition of its
/// own: publish first, then ring; the waiter gives the condition as a predicate, which must include
/// every reason to wake up (the closed flag too). A process killed inside leaves at worst one ring
/// undone, which the waiter's slices of at most kSlice and the supervisor's wake_all() make up for.
class alignas(128) Doorbell {
 public:
  static constexpr std::chrono::milliseconds kSlice{50};
  /// About the time of a wake-up by the kernel, so that a spin costs at most twice a sleep.
  static constexpr int kSpins = 200;

  /// Call after publishing. Costs a fence and a load while nobody sleeps.
  void ring() noexcept {
    // Pairs with the fence in wait(): either this load sees the sleeper's flag, or the sleeper's
    // second look at its condition sees what was published before.
    full_fence();
    if (sleeping_.load(std::memory_order_relaxed) != 0) wake_sleepers();
  }

  /// Wakes every waiter whatever the flag says: for the supervisor, who does it in place of a
  /// process that died between publishing and ringing.
  void wake_all() noexcept;

  /// Returns true once ready() holds, false when the deadline passed before it did.
  /// @param ready side effects happen once: no call follows one that returned true
  /// @param spins looks before the first sleep
  template <class Pred>
  bool wait(Pred&& ready, Deadline deadline, int spins = kSpins) noexcept {
    for (int i = 0; i <= spins; ++i) {
      if (ready()) return true;
      cpu_relax();
    }
    for (;;) {
      // Acquire pairs with the release in wake_sleepers(): who sees its ring also sees the flag
      // cleared before it, so the flag set below is not the one that it cleared.
      const std::uint32_t seen = bell_.load(std::memory_order_acquire);
      sleeping_.store(1, std::memory_order_relaxed);  // ordered by the fence
      full_fence();
      if (ready()) return true;
      if (!sleep(seen, deadline)) return ready();
    }
  }

 private:
  void wake_sleepers() noexcept;
  bool sleep(std::uint32_t seen, Deadline deadline) noexcept;

  std::atomic<std::uint32_t> bell_{0};
  std::atomic<std::uint32_t> sleeping_{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
};

}  // namespace passel::shm
