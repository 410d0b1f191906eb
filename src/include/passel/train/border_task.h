#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "passel/train/checkpoint_store.h"
#include "passel/train/evaluator.h"
#include "passel/train/snapshot.h"

namespace passel::train {

/// What became of a snapshot that was taken at a ticket border.
struct BorderResult {
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;
  std::optional<Score> score;        // empty: not evaluated
  std::filesystem::path checkpoint;  // empty: the save failed
  bool best = false;                 // has the best score of the run so far
  double save_seconds = 0;
  std::string error;  // why the save failed
  std::int64_t version = 0;
  std::string param_hash;
  std::map<std::string, std::string> tensor_hashes;
};

/// Evaluates and saves snapshots on a thread of its own, one at a time, while
/// training goes on; on the caller's where no thread can be had. For the
/// coordinating thread.
class BorderTask {
 public:
  /// `on_finished` is called from the thread that did the work when a result is ready.
  BorderTask(const Dataset& dataset, const Config& config, CheckpointStore& store,
             std::function<void()> on_finished);
  /// Gives a running evaluation up and waits for a running save.
  ~BorderTask();

  bool busy() const { return result_.valid(); }
  /// True when take() would not wait.
  bool ready() const;
  /// Begins with a snapshot; the task must not be busy.
  void start(Snapshot snapshot, bool evaluate);
  /// Waits for the running task.
  BorderResult take();
  /// The running evaluation, if any, ends without a score; the save goes on.
  void hurry() { hurried_ = true; }

 private:
  BorderResult run(const Snapshot& snapshot, bool evaluate);

  const Dataset& dataset_;
  const Config& config_;
  CheckpointStore& store_;
  std::function<void()> on_finished_;
  std::atomic<bool> hurried_ = false;
  std::future<BorderResult> result_;
  std::thread thread_;
};

}  // namespace passel::train
