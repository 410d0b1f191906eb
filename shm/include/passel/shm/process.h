#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace passel::shm {

/// A spawned process. `pidfd` is the caller's to close; it becomes readable when every thread of
/// the process is gone, so from then on nothing of it writes to shared memory any more.
struct Process {
  pid_t pid;
  int pidfd;
};

struct SpawnRequest {
  std::string entry;
  std::uint32_t slot = 0;
  std::uint32_t incarnation = 1;
  int arena_fd = -1;
  /// File for stdout and stderr, appended to; empty: the parent's own.
  std::string output;
  /// "NAME=value" each, in place of or added to the parent's.
  std::vector<std::string> environment;
};

/// Starts this program again with init() running `entry`. The child has an empty signal mask,
/// default handlers, a process group of its own (a Ctrl-C on the terminal is the parent's to
/// handle), stdin from /dev/null and no descriptor but the standard three and the arena.
///
/// The child is killed when the calling THREAD ends: call it from one that lives to the end.
/// @throws Error
Process spawn_process(const SpawnRequest& request);

}  // namespace passel::shm
