#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "passel/train/staleness.h"

namespace passel::train {

struct TrainRecord {
  std::int64_t ticket = 0;  ///< tickets finished
  std::int64_t epoch = 0;
  double loss = 0;  ///< mean since the record before
  double lr = 0;
  double samples_per_second = 0;
  double staleness_mean = 0;
  std::uint64_t staleness_max = 0;
  std::int64_t workers = 0;  ///< alive
};

/// Holds test_accuracy [0, 1] for classification, test_loss for regression.
struct EvalRecord {
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;
  std::optional<double> test_accuracy = {};
  std::optional<double> test_loss = {};
};

struct WorkerRecord {
  int slot = 0;
  std::int64_t incarnation = 0;
  std::string state = {};  ///< "started", "ready", "exited", "killed", "failed", ...
  std::optional<int> signal = {};
  std::optional<int> exit_code = {};
  std::string text = {};  ///< what the worker threw; empty: left out
};

struct CheckpointRecord {
  std::int64_t ticket = 0;
  std::int64_t epoch = 0;
  std::filesystem::path file = {};
  double seconds = 0;  ///< time it took to write
  bool best = false;
  std::int64_t version = 0;                         ///< updates made
  std::string param_hash = {};                      ///< as in the summary
  std::map<std::string, std::string> tensors = {};  ///< the same of each parameter
};

/// What torch's allocator has on a GPU for one worker, at a ticket border.
struct MemoryRecord {
  std::int64_t ticket = 0;
  std::int64_t slot = 0;
  std::int64_t allocated = 0;  ///< bytes
  std::int64_t reserved = 0;
  std::int64_t peak = 0;     ///< most that was allocated at once
  std::int64_t emptied = 0;  ///< times that the cache was
  double seconds = 0;        ///< that the device took for tickets
};

struct SummaryRecord {
  std::int64_t tickets = 0;
  std::int64_t samples = 0;
  double seconds = 0;
  double samples_per_second = 0;
  std::optional<double> test_accuracy = {};
  std::optional<double> test_loss = {};
  std::string param_hash = {};  ///< 16 hex digits over the parameter bytes
  std::string mode = {};
  std::int64_t workers = 0;
  std::int64_t respawns = 0;
  std::int64_t redone = 0;    ///< tickets granted again after a death
  std::int64_t rejected = 0;  ///< tickets whose gradient was not finite, so not applied
  StalenessHistogram staleness = {};
  std::vector<StalenessHistogram> worker_staleness = {};  ///< by slot
  std::filesystem::path checkpoint = {};                  ///< the last one; empty: left out
};

/// metrics.jsonl: one JSON object a line with "event" and "time" (unix seconds).
///
/// Lines are appended whole, and what is not finite is written as null, so each
/// line can be parsed at any time. Writing never throws and never ends a run: a
/// failed write is remembered for take_error(). Any thread of the process that
/// made it may write; one process per file. A file that was removed is made
/// anew where its folder is there.
class MetricsLog {
 public:
  /// Opens or makes the file; a torn last line (its writer was killed) is cut.
  /// Throws UsageError if the file cannot be opened.
  explicit MetricsLog(std::filesystem::path file);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  void train(const TrainRecord& record) noexcept;
  void eval(const EvalRecord& record) noexcept;
  void worker(const WorkerRecord& record) noexcept;
  void checkpoint(const CheckpointRecord& record) noexcept;
  void memory(const MemoryRecord& record) noexcept;
  void summary(const SummaryRecord& record) noexcept;

  /// For a run resumed from the checkpoint of `ticket`: drops train, eval,
  /// checkpoint and memory events of later tickets, summaries, and lines that are not
  /// JSON. Replaces the file atomically; throws UsageError if it cannot be
  /// written, ReadError if it cannot be read. Then it stays as it was.
  void truncate_after(std::int64_t ticket);

  /// The first failed write as a sentence, to the first call after it only.
  std::optional<std::string> take_error();

 private:
  void open();
  template <typename Fill>
  void write(const char* event, Fill fill) noexcept;
  void append(const std::string& line);
  void reopen_if_removed();
  void remember(std::string failure);

  std::filesystem::path file_;
  std::mutex mutex_;  // guards what follows
  int fd_ = -1;
  std::int64_t size_ = 0;   // bytes of whole lines
  bool ends_torn_ = false;  // with part of a line that could not be cut
  bool failed_ = false;
  std::optional<std::string> error_;  // until taken
};

}  // namespace passel::train
