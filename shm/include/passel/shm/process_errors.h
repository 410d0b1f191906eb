#pragma once

#include <string_view>
#include <vector>

#include "passel/shm/error.h"
#include "passel/shm/supervisor.h"

namespace passel::shm {

/// The run is over because of its workers. what() says how each of them failed, the first one
/// first.
class WorkersFailed : public Error {
 public:
  /// @param failures may be empty when `note` is not
  /// @param note what else there is to say, as a sentence without its full stop
  explicit WorkersFailed(std::vector<WorkerExit> failures, std::string_view note = {});

  /// All of them, in order of time.
  [[nodiscard]] const std::vector<WorkerExit>& failures() const noexcept { return failures_; }

 private:
  std::vector<WorkerExit> failures_;
};

/// The run is over because the parent was sent SIGINT, SIGTERM or SIGHUP.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal);

  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  int signal_;
};

}  // namespace passel::shm
