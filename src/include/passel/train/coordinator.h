#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_set>
#include <vector>

#include "passel/shm/buffer_pool.h"
#include "passel/train/batch_loader.h"
#include "passel/train/border_task.h"
#include "passel/train/crew.h"
#include "passel/train/metrics_log.h"
#include "passel/train/ordered_commits.h"
#include "passel/train/progress.h"
#include "passel/train/recorded_commits.h"
#include "passel/train/reporter.h"
#include "passel/train/run_folder.h"
#include "passel/train/tickets.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// How a run ended.
struct Outcome {
  SummaryRecord summary;
  int stop_signal = 0;     ///< 0: ran to its end, a signal after the last ticket or not
  std::string save_error;  ///< why the last checkpoint could not be saved; empty: it was

  /// Of the program: 0 done, 1 not saved, 128 + signal stopped by one.
  int exit_code() const {
    if (!save_error.empty()) return 1;
    return stop_signal == 0 ? 0 : 128 + stop_signal;
  }
};

/// A second SIGINT or SIGTERM: the user does not want to wait.
struct Interrupted {
  int signal;
};

/// The parent's side of training: grants tickets to workers, takes their
/// results, has the dead replaced, and at ticket borders takes snapshots that
/// are evaluated and saved while training goes on. All of it runs on one
/// thread; the supervisor and the border task only ring its doorbell.
class Coordinator {
 public:
  struct Parts {
    const Config& config;
    const RunFolder& folder;
    shm::Arena& arena;
    TrainingMemory& memory;
    const Dataset& dataset;
    MetricsLog& metrics;
    tensorboard::EventFile& events;
    Progress& progress;
    bool tty;
    bool simulated = false;  ///< the workers live in this process; modes ordered and sync
  };

  /// first_ticket: 0, or where a resumed run goes on. borders: tickets at which snapshots are taken
  /// besides the ends of epochs and what the configuration says.
  Coordinator(const Parts& parts, BatchPlan plan, std::int64_t first_ticket,
              std::int64_t total_tickets, std::set<std::int64_t> borders = {});

  /// Repeats a recorded run: tickets are its updates. Before run().
  void set_replay(const Replay& replay);
  /// Called for each ticket that is done, once. Before run().
  void set_observer(std::function<void(const Done&)> observer) { observer_ = std::move(observer); }

  /// Sends a signal to the worker of a slot, if there is one. From any thread.
  void signal_worker(std::uint32_t slot, int signo) { crew_.signal(slot, signo); }

  /// Starts the workers; the data set may still have to be loaded.
  void spawn_workers() { crew_.spawn_all(); }

  /// Trains until all tickets are done, or a signal stops it at a ticket border.
  /// The data set must be loaded. Throws TrainingError when training cannot go
  /// on, Interrupted at a second signal.
  Outcome run();

 private:
  void wait_for_news();
  void take_results();
  void take_result(const Done& done);
  void record(const Done& done);
  void count_rejected(const Done& done);
  void take_events();
  void on_exit(const shm::WorkerExit& exit);
  void settle_commits(const shm::WorkerExit& exit);
  std::optional<Done> handed_in(std::int64_t ticket) const;
  void on_signal(int signal);

  void grant_tickets();
  void grant_ticket(std::uint32_t slot);
  bool begins_anew(std::int64_t batch) const;
  std::int64_t border_after(std::int64_t ticket) const;
  void set_border(std::int64_t ticket);
  bool quiescent();
  bool may_wait_for_others(std::uint32_t slot) const;
  void watch_workers();
  void settle_border();
  void on_border();
  void note_device_use(std::int64_t ticket);
  void take_border_result();
  void dismiss_workers();
  Outcome finish();

  bool at_end() const { return tickets_.done() == tickets_.total() || stop_signal_ != 0; }
  bool holds_work(std::uint32_t slot) const { return !tickets_.held(slot).empty(); }
  Reporter::State state() const;

  Parts parts_;
  std::set<std::int64_t> borders_;
  Replay replay_;
  std::unordered_set<std::int64_t> replayed_;  // batches of a stateful run that is repeated
  std::function<void(const Done&)> observer_;
  BatchLoader loader_;
  CheckpointStore store_;
  Reporter reporter_;
  Tickets tickets_;
  std::optional<OrderedCommits> commits_;    // modes ordered and sync
  std::optional<RecordedCommits> arrivals_;  // mode recorded
  shm::BufferPool buffers_;
  shm::SimpleQueue<Done>::Consumer done_;
  std::vector<shm::SimpleQueue<Grant>::Producer> grants_;
  std::uint32_t next_slot_ = 0;  // round robin
  std::int64_t redone_ = 0;
  std::int64_t rejected_ = 0;  // gradients that were not finite
  std::int64_t rejected_in_a_row_ = 0;
  int stop_signal_ = 0;
  bool border_postponed_ = false;  // a stalled worker holds the border up
  bool finished_ = false;
  std::int64_t evaluated_epochs_;
  std::optional<BorderResult> last_border_;
  BorderTask border_task_;
  Crew crew_;  // last: it ends first, and its supervisor rings done_'s doorbell
};

}  // namespace passel::train
