#pragma once

#include <chrono>

namespace passel::shm {

/// CLOCK_MONOTONIC: the same in every process of a machine, untouched by changes of the date.
using Clock = std::chrono::steady_clock;

/// Absolute, so that interrupted waits and retries cannot stretch it.
using Deadline = Clock::time_point;

inline constexpr Deadline kNoDeadline = Deadline::max();

/// Past from the start: do not wait.
inline constexpr Deadline kNow = Deadline::min();

/// The moment `wait` from now; saturates at kNoDeadline.
inline Deadline after(std::chrono::nanoseconds wait) noexcept {
  const Deadline now = Clock::now();
  return wait >= kNoDeadline - now ? kNoDeadline : now + wait;
}

}  // namespace passel::shm
