#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace passel::testing {

/// What a finished program left: exit code (128 + signal when it was killed)
/// and everything it wrote to stdout and stderr.
struct Finished {
  int code;
  std::string text;
};

/// A `passel` process started by a test. Killed, with all its workers, when it
/// goes out of scope.
class PasselProgram {
 public:
  /// `text_file` receives stdout and stderr.
  PasselProgram(const std::vector<std::string>& arguments, std::filesystem::path text_file);
  ~PasselProgram();
  PasselProgram(const PasselProgram&) = delete;
  PasselProgram& operator=(const PasselProgram&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Worker processes that are alive now.
  std::vector<pid_t> workers() const;
  /// Waits for its end; fails the test after `limit`.
  Finished wait(std::chrono::seconds limit = std::chrono::seconds(60));
  std::string text() const;

 private:
  pid_t pid_ = -1;
  bool finished_ = false;
  std::filesystem::path text_file_;
};

Finished run_passel(const std::vector<std::string>& arguments,
                    std::chrono::seconds limit = std::chrono::seconds(60));

/// The events of a run so far; a torn last line is left out.
std::vector<nlohmann::json> events(const std::filesystem::path& run);
/// Those of one kind.
std::vector<nlohmann::json> events(const std::filesystem::path& run, const std::string& kind);

/// Polls until the condition holds; false when the deadline passed first.
bool eventually(const std::function<bool()>& condition,
                std::chrono::seconds limit = std::chrono::seconds(30));

/// Polls the run's metrics until `wanted` finds what it looks for among the events.
bool eventually_in(const std::filesystem::path& run,
                   const std::function<bool(const std::vector<nlohmann::json>&)>& wanted);

bool process_exists(pid_t pid);

}  // namespace passel::testing
