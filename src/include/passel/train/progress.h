#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "passel/train/metrics_log.h"

namespace passel::train {

struct ProgressState {
  std::int64_t ticket = 0;  ///< tickets finished
  std::int64_t total = 0;   ///< 0: unknown
  std::int64_t epoch = 0;
  double loss = 0;
  double samples_per_second = 0;
  double lr = 0;
  std::int64_t workers_alive = 0;
  double staleness_mean = 0;
  double elapsed = 0;    ///< seconds
  double remaining = 0;  ///< seconds; negative: unknown
};

/// What a user sees while a run goes on. On a terminal one status line that is
/// drawn over; elsewhere plain lines without control characters. Colours only
/// on a terminal and without NO_COLOR. Write errors are ignored: a closed
/// terminal must not end a run (the program ignores SIGPIPE). For any thread: a
/// checkpoint that is saved beside the training warns too.
class Progress {
 public:
  /// `fd` stays the caller's. `tty`: usually isatty(fd). A quiet one shows
  /// warnings alone.
  Progress(int fd, bool tty, bool quiet);
  /// Takes the status line away.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const ProgressState& state);
  /// A line above the status line.
  void note(std::string_view text);
  /// The same, shown even when quiet.
  void warn(std::string_view text);
  /// The final block: result, speed, staleness, deaths and the checkpoint.
  void summary(const SummaryRecord& record);

 private:
  void print(std::string_view text);
  void draw();

  int fd_;
  bool tty_;
  bool colour_;
  bool quiet_;
  std::mutex mutex_;  // guards what follows and keeps lines whole
  std::string line_;  // the status line on the terminal, empty: none
};

}  // namespace passel::train
