#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "passel/shm/arena.h"

namespace passel::shm {

/// A worker is gone: every thread of it, reaped. Nothing of it writes any more.
struct WorkerExit {
  enum class Kind : std::uint8_t { kExited, kSignalled };

  std::uint32_t slot;
  std::uint32_t incarnation;
  pid_t pid;
  Kind kind;
  int code;          ///< exit status, or signal number
  std::string text;  ///< from its crash record, may be empty

  [[nodiscard]] bool failed() const noexcept { return kind == Kind::kSignalled || code != 0; }
  /// One sentence for people: who, how, and what it said last.
  [[nodiscard]] std::string describe() const;
};

/// SIGINT, SIGTERM or SIGHUP was sent to the parent.
struct Signal {
  int number;
};

using Event = std::variant<WorkerExit, Signal>;

struct SpawnOptions {
  std::string output = {};                    ///< file for stdout and stderr, appended to
  std::vector<std::string> environment = {};  ///< "NAME=value", after Supervisor's own
};

/// Starts workers, notices how they end, and leaves none behind.
///
/// One thread of its own does every spawn and lives as long as the object, because a worker is
/// killed when the thread that spawned it ends. Death is a readable pidfd and nothing else: a
/// missed heartbeat or a kill() that returned proves nothing.
///
/// What to do about a death is the owner's: poll() on the owner's thread, drain what the dead
/// published, reclaim its leases, reset its queues, wake_all() those who may wait for it, respawn.
/// The ledger of leases then has one thread and needs no lock.
///
/// Threads: any thread of the parent may call any member.
class Supervisor {
 public:
  struct Options {
    std::uint32_t slots = 1;
    std::string entry = {};                     ///< a registered one
    std::vector<std::string> environment = {};  ///< "NAME=value" for every worker
    /// Called from the supervisor's thread after an event was queued. Must not block or throw:
    /// ring the doorbell that the owner sleeps on.
    std::function<void()> on_event = {};
  };

  /// The name of the array of crash records that the constructor adds to the arena.
  static constexpr const char* kCrashRecords = "passel.crash";

  /// Adds the crash records to the arena, so the arena must not be frozen yet. The arena must
  /// outlive the supervisor. One supervisor per arena.
  Supervisor(Arena& arena, Options options);

  /// SIGKILLs every worker, reaps it, and ends the thread.
  ~Supervisor();

  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  /// Starts a process in `slot`, which must be empty (its last WorkerExit polled), and returns the
  /// incarnation, from 1. Freezes the arena.
  /// @throws Error
  std::uint32_t spawn(std::uint32_t slot, const SpawnOptions& options = {});

  /// Sends a signal to the worker in `slot`; false when there is none. Its death, if that is what
  /// the signal brings, comes as an event.
  bool kill(std::uint32_t slot, int signo);

  /// The oldest event not yet taken.
  std::optional<Event> poll();
  /// Whether poll() has something: for a doorbell's predicate.
  [[nodiscard]] bool pending() const noexcept;

  /// Spawned and not yet reaped.
  [[nodiscard]] bool alive(std::uint32_t slot) const;
  /// The process in `slot`, 0 when there is none.
  [[nodiscard]] pid_t pid(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t slots() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace passel::shm
