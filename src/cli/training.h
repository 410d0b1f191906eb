#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passel/train/coordinator.h"
#include "passel/train/devices.h"
#include "passel/train/run_folder.h"

namespace passel::train {

/// One process at a time trains in a folder. The lock goes with the process,
/// however it ends.
class FolderLock {
 public:
  /// Throws UsageError when another process has it.
  explicit FolderLock(const RunFolder& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

/// Where a run begins.
struct Start {
  std::int64_t ticket = 0;
  std::optional<Snapshot> snapshot = {};  ///< empty: fresh parameters
  std::string data = {};                  ///< fingerprint() of what it was trained on; or unknown
  std::vector<std::string> warnings = {};
};

/// All that a run needs before its first process.
struct Training {
  /// Opens the data set, and reads the checkpoint in `from` (a run folder or a file; empty: fresh
  /// parameters). Throws UsageError and DataError for what does not fit together.
  Training(Config config, const std::filesystem::path& from);

  Config config;
  Devices devices;  // before the model: torch is to know of GPUs
  std::unique_ptr<Dataset> dataset;
  BatchPlan plan;
  Model model;
  Start start;
  std::int64_t total;                   ///< tickets
  std::set<std::int64_t> borders = {};  ///< tickets to take snapshots at, besides the usual ones
  bool simulated = false;               ///< the workers live in this process
  Replay replay = {};
  std::function<void(const Done&)> observer = {};  ///< of each ticket that is done; or none
};

/// Throws UsageError for a run on GPUs, of which each process opens the memory once.
void check_simulated_device(const Config& config);

/// The same, and for a mode whose result depends on how processes meet.
void check_simulation(const Config& config);

/// Trains to the end, or to a signal; writes metrics, curves, manifest and progress.
/// @param watch called with the coordinator while it runs; what it returns lives as long
Outcome run_training(Training& training, const RunFolder& folder,
                     const std::vector<std::string>& argv,
                     const std::function<std::shared_ptr<void>(Coordinator&)>& watch = {});

}  // namespace passel::train
