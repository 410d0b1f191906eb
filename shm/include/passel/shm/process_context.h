#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/process_errors.h"
#include "passel/shm/result_record.h"
#include "passel/shm/supervisor.h"

namespace passel::shm {

/// What a failure of one worker means: an exit status other than 0, or a signal.
enum class OnDeath : std::uint8_t {
  kAbort,    ///< the first one ends all the others: SIGTERM, the grace, SIGKILL
  kRespawn,  ///< a successor takes the slot; a worker that exits with status 0 gets none
  kContinue  ///< the others go on to their end
};

struct SpawnSettings {
  std::uint32_t nprocs = 1;
  OnDeath on_death = OnDeath::kAbort;
  std::uint32_t max_respawns = 1000;                        ///< of all slots; then as kAbort
  std::chrono::nanoseconds grace{std::chrono::seconds(5)};  ///< from SIGTERM or a stop to SIGKILL
  std::vector<std::string> environment = {};  ///< "NAME=value", stronger than `threads`
  std::string output = {};  ///< worker N appends stdout and stderr to OUTPUT.N; empty: the parent's
  std::uint32_t threads = 0;  ///< per worker, as OMP_NUM_THREADS and MKL_NUM_THREADS; 0: its share
                              ///< of the processors that the parent may use, at least 1
};

/// Called without any lock held. What on_exit and on_tick throw ends the run as a failure.
struct ProcessHooks {
  /// On the context's own thread: the dead is provably gone, its successor not yet started.
  /// `replaced`: it gets one. Reclaim here what it held. Must not wait for the run to end.
  std::function<void(const WorkerExit&, bool replaced)> on_exit = {};
  /// After any change, from any thread: wake those who wait in blocking calls. Must not throw.
  std::function<void()> on_change = {};
  /// On the context's own thread, after events, and every 10 ms for as long as it returns true.
  std::function<bool()> on_tick = {};
};

class ProcessRun;

/// Worker processes that run one entry: the counterpart of torch.multiprocessing's ProcessContext.
///
/// A thread of its own notices deaths and stop signals and applies the policy, so respawns and
/// aborts need no call from the user's threads. The first SIGINT, SIGTERM or SIGHUP that is sent
/// to the parent asks the workers to stop and kills after the grace those that have not, a second
/// one kills at once. The run ends when every worker has ended and is not to be replaced.
///
/// Threads: any thread of the parent may call any member, also before and during start(). In a
/// forked process all that can throw throws Error; the destructor does nothing there.
class ProcessContext {
 public:
  /// Adds what it shares with the workers to the arena, which must not be frozen yet and must
  /// outlive the context; nothing is started. One per arena.
  /// @throws Error
  ProcessContext(Arena& arena, std::string entry, SpawnSettings settings, ProcessHooks hooks = {});

  /// SIGKILLs and reaps what is alive. No hook runs any more.
  ~ProcessContext();

  ProcessContext(const ProcessContext&) = delete;
  ProcessContext& operator=(const ProcessContext&) = delete;

  /// Spawns all workers and freezes the arena. Once.
  /// @throws Error when no such entry is registered or a process cannot be started; none is left
  void start();

  /// Waits for the end of the run. Never from a hook.
  /// @throws WorkersFailed when a failure decided the run, or under kContinue when one happened
  /// @throws Interrupted when a signal did
  void join();
  /// The same with a deadline: false when the run has not ended by then.
  bool join_for(std::chrono::nanoseconds wait);

  /// SIGTERM, the grace, SIGKILL; all are reaped on return. Never from a hook.
  void terminate();
  void terminate(std::chrono::nanoseconds grace);
  /// False when the slot is empty. A death that comes of it counts as any other.
  bool kill(std::uint32_t slot, int signo);

  /// Asks all workers to finish in order: WorkerContext::stop_requested(). Nobody is killed, and
  /// nobody who dies from now on is replaced.
  void request_stop() noexcept;

  /// The run has ended, and join() would throw. One load.
  [[nodiscard]] bool failed() const noexcept;
  /// The run has ended. One load.
  [[nodiscard]] bool finished() const;
  /// What join() throws, without waiting; nothing before the run has ended. For blocking calls.
  void throw_if_failed() const;

  [[nodiscard]] pid_t pid(std::uint32_t slot) const;  ///< 0 when the slot is empty
  [[nodiscard]] bool alive(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t alive_count() const;
  /// How many processes the slot has had.
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t respawns() const;
  /// All failures so far, in order of time, those of workers that were replaced too. Not those
  /// who died of the SIGTERM or SIGKILL that ended the run.
  [[nodiscard]] std::vector<WorkerExit> failures() const;

  /// What the entry returned in `slot`; empty when it has not, or returns nothing.
  /// @throws Error when there is no such slot, or R is not what the entry returns
  template <class R>
  [[nodiscard]] std::optional<R> result(std::uint32_t slot) const {
    return read_result<R>(record(slot));
  }

 private:
  [[nodiscard]] const ResultRecord& record(std::uint32_t slot) const;

  std::unique_ptr<ProcessRun> run_;
};

}  // namespace passel::shm
