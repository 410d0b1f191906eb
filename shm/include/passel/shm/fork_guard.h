#pragma once

#include <atomic>
#include <cstdint>

namespace passel::shm {

namespace detail {
enum ForkState : std::uint8_t { kUnused, kUsed, kForked };
extern std::atomic<ForkState> fork_state;
void note_first_use();
}  // namespace detail

/// This process is a fork() without exec of one that had used the library by then. It has none of
/// the library's threads, and a lock that one of them held is held for ever.
inline bool forked() noexcept {
  // Relaxed: written by the only thread of a new process, before it runs anything else.
  return detail::fork_state.load(std::memory_order_relaxed) == detail::kForked;
}

/// The first line of what must not run in such a process, so that it fails there instead of
/// hanging. Costs one load. A program that forks first and uses the library then, as daemon()
/// does, is let through.
/// @throws Error
inline void throw_if_forked() {
  // Relaxed: as above; and kUsed publishes nothing.
  if (detail::fork_state.load(std::memory_order_relaxed) != detail::kUsed) detail::note_first_use();
}

}  // namespace passel::shm
