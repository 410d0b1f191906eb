#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "alarm.h"
#include "passel/shm/process_context.h"
#include "passel/shm/run_control.h"

namespace passel::shm {

/// The state of a ProcessContext and the thread that applies its policy, the warden.
class ProcessRun {
 public:
  ProcessRun(Arena& arena, std::string entry, SpawnSettings settings, ProcessHooks hooks);
  ~ProcessRun();
  ProcessRun(const ProcessRun&) = delete;
  ProcessRun& operator=(const ProcessRun&) = delete;

  // As the members of ProcessContext.
  void start();
  bool wait(Deadline deadline);
  void throw_verdict() const;
  void terminate(std::chrono::nanoseconds grace);
  void request_stop() noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_.load(); }
  [[nodiscard]] bool finished() const noexcept { return finished_.load(); }
  [[nodiscard]] std::uint32_t incarnation(std::uint32_t slot) const;
  [[nodiscard]] std::uint32_t respawns() const;
  [[nodiscard]] std::vector<WorkerExit> failures() const;
  [[nodiscard]] std::span<const ResultRecord> results() const noexcept { return results_; }
  [[nodiscard]] Supervisor& supervisor() noexcept { return supervisor_; }
  [[nodiscard]] const SpawnSettings& settings() const noexcept { return settings_; }

 private:
  /// What the end of the run came from.
  enum class Cause : std::uint8_t { kNone, kFailure, kSignal, kTerminated };
  struct Slot {
    bool running = false;  ///< or about to be replaced
    bool ended_by_us = false;
    std::uint32_t incarnation = 0;
  };

  // On the warden's thread.
  void watch();
  void handle(const WorkerExit& exit);
  void handle(const Signal& received);
  bool judge_locked(const WorkerExit& exit);
  void replace(std::uint32_t slot);
  bool tick();
  void kill_if_due();
  Deadline next_look(bool ticking);

  // On any thread.
  void announce() const;
  void give_up(const std::string& why);
  void spawn_locked(std::uint32_t slot);
  void end_locked(Cause why, std::chrono::nanoseconds grace);
  void signal_all_locked(int signo);
  void settle_locked();

  const std::string entry_;
  const SpawnSettings settings_;
  const ProcessHooks hooks_;
  RunControl& control_;
  const std::span<ResultRecord> results_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> finished_{false};
  Alarm alarm_;  ///< rung by the supervisor's thread, which must not wait for the mutex

  mutable std::mutex mutex_;  ///< private to this process; guards all below, to quitting_
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<WorkerExit> failures_;
  Cause cause_ = Cause::kNone;
  std::string note_;
  int signal_ = 0;
  std::uint32_t signals_ = 0;
  std::uint32_t respawns_ = 0;
  Deadline kill_at_ = kNoDeadline;
  bool starting_ = false;
  bool started_ = false;
  bool quitting_ = false;

  bool tick_failed_ = false;  ///< the warden's own

  Supervisor supervisor_;  ///< its thread uses the alarm
  std::thread warden_;
};

}  // namespace passel::shm
