#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "passel/tensorboard/event_file.h"
#include "passel/train/border_task.h"
#include "passel/train/config.h"
#include "passel/train/metrics_log.h"
#include "passel/train/progress.h"
#include "passel/train/staleness.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Turns what happens in a run into metrics, curves and progress. For the coordinating thread.
class Reporter {
 public:
  using Clock = std::chrono::steady_clock;

  Reporter(const Config& config, MetricsLog& metrics, tensorboard::EventFile& events,
           Progress& progress, bool tty);

  /// Training begins: the first worker is ready and the data is there.
  void start();
  bool started() const { return started_.has_value(); }
  /// Training is over; what follows does not count in samples/s.
  void stop();

  struct State {
    std::int64_t done, total, epoch, workers;
    double lr;  ///< of the newest ticket that is done
  };
  /// One ticket of `samples` samples was applied.
  void ticket(const Done& done, std::int64_t samples, const State& state);
  /// Draws the progress line if it is due.
  void show(const State& state);
  void border(const BorderResult& result);
  void failed_writes();

  /// Fills in all that this object knows of.
  SummaryRecord summary() const;
  /// Seconds of training so far.
  double elapsed() const;
  /// Mean seconds from one ticket to the next; 0 before the first.
  double seconds_per_ticket() const;

 private:
  struct Interval {
    double loss = 0;
    std::int64_t tickets = 0;
    std::int64_t samples = 0;
    StalenessHistogram staleness;
    Clock::time_point begin;
  };
  void close_interval(const State& state);

  const Config& config_;
  MetricsLog& metrics_;
  tensorboard::EventFile& events_;
  Progress& progress_;
  Clock::duration redraw_;
  std::optional<Clock::time_point> started_, stopped_;
  Clock::time_point shown_;
  Interval interval_;
  TrainRecord last_;
  std::int64_t tickets_ = 0;
  std::int64_t samples_ = 0;
  StalenessHistogram staleness_;
  std::vector<StalenessHistogram> worker_staleness_;  // [workers]
  std::optional<Score> score_;
  std::filesystem::path checkpoint_;
};

}  // namespace passel::train
