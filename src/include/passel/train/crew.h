#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/buffer_pool.h"
#include "passel/shm/supervisor.h"
#include "passel/train/config.h"
#include "passel/train/metrics_log.h"
#include "passel/train/progress.h"
#include "passel/train/run_folder.h"

namespace passel::train {

class Worker;

/// The worker processes of a run as the coordinator sees them: who is alive,
/// who makes progress, who is replaced, and when to give up. For the
/// coordinating thread.
///
/// Or simulated workers: they live in this process, and compute when they are told to.
class Crew {
 public:
  using Clock = std::chrono::steady_clock;

  /// `on_event` is called from the supervisor's thread when poll() has news.
  Crew(const Config& config, const RunFolder& folder, shm::Arena& arena, MetricsLog& metrics,
       Progress& progress, bool simulated, std::function<void()> on_event);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void spawn_all();
  /// Lets each simulated worker compute a ticket. False: none could, or they are processes.
  bool compute();
  /// From any thread.
  void signal(std::uint32_t slot, int signo) { supervisor_.kill(slot, signo); }
  std::optional<shm::Event> poll() { return supervisor_.poll(); }
  bool pending() const { return supervisor_.pending(); }

  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::int64_t alive() const;
  /// Has reported that it can take grants, and has not died since.
  bool ready(std::uint32_t slot) const { return slots_[slot].alive && slots_[slot].ready; }
  std::uint32_t incarnation(std::uint32_t slot) const { return slots_[slot].incarnation; }
  /// The lease names a slot of this run and its present incarnation.
  bool is_current(const shm::Lease& lease) const;

  void note_ready(std::uint32_t slot);
  /// The slot finished a ticket, or was granted one while it held none.
  void note_progress(std::uint32_t slot) { slots_[slot].last_progress = Clock::now(); }
  void note_trained(std::uint32_t slot);
  /// To be called again and again: time in which this process stood still (a SIGSTOP, a frozen
  /// container) is not held against the workers, which as a rule stood still, too.
  void note_time();
  /// It holds work and has not finished any for `patience`.
  bool stalled(std::uint32_t slot, bool holds_work, Clock::duration patience) const;
  /// Kills a worker that made no progress for --worker-timeout (or is not ready
  /// in the time a start may take), and says so.
  void kill_if_hanging(std::uint32_t slot, bool holds_work, Clock::duration limit);

  /// A worker died while `ticket` was its work in hand: says so, and unless the
  /// run is ending, spawns its replacement. Throws TrainingError when starts or
  /// one ticket keep failing, or --max-respawns is used up.
  void on_exit(const shm::WorkerExit& exit, std::optional<std::int64_t> ticket);
  /// Tries again, once a second, to spawn replacements that the machine had no process for. Throws
  /// shm::Error when that has gone on for long and nobody else is alive.
  void fill_vacancies();
  /// From now on a worker that exits is not replaced; simulated ones are gone.
  void dismiss();

  std::int64_t respawns() const { return respawns_; }

 private:
  struct Slot {
    std::uint32_t incarnation = 0;
    bool alive = false;
    bool ready = false;
    bool trained = false;    // this incarnation has finished a ticket
    bool condemned = false;  // killed for lack of progress
    bool vacant = false;     // no replacement could be spawned yet
    Clock::time_point last_progress;
  };

  void spawn(std::uint32_t slot);
  void replace(std::uint32_t slot);
  void judge(const shm::WorkerExit& exit, const Slot& slot, std::optional<std::int64_t> ticket);
  void record(std::uint32_t slot, const char* state);

  const Config& config_;
  const RunFolder& folder_;
  const shm::Arena& arena_;
  MetricsLog& metrics_;
  Progress& progress_;
  std::vector<Slot> slots_;
  std::int64_t respawns_ = 0;
  std::int64_t failed_starts_ = 0;       // in a row
  std::map<std::int64_t, int> crashes_;  // by ticket
  Clock::time_point next_try_;           // to fill vacancies
  Clock::time_point last_look_ = Clock::now();
  std::optional<Clock::time_point> deserted_since_;
  bool dismissed_ = false;
  bool simulated_;
  std::vector<std::unique_ptr<Worker>> simulated_workers_;
  shm::Supervisor supervisor_;  // of simulated workers: for the parent's signals only
};

}  // namespace passel::train
