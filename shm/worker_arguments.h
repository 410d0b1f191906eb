#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace passel::shm {

/// The number under which every worker finds the arena.
inline constexpr int kArenaFd = 3;

/// What a spawned process is told on its command line:
/// EXECUTABLE --passel-worker ENTRY SLOT INCARNATION PARENT_PID.
struct WorkerArguments {
  std::string entry;
  std::uint32_t slot;
  std::uint32_t incarnation;
  pid_t parent;

  static constexpr int kCount = 6;
  [[nodiscard]] std::array<std::string, kCount> to_argv() const;
  /// Empty when the process was not started as a worker.
  static std::optional<WorkerArguments> from_argv(int argc, char** argv);
};

}  // namespace passel::shm
