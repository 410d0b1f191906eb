#include "passel/shm/process_errors.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace passel::shm {
namespace {

/// A run with respawns can have a thousand failures.
constexpr std::size_t kDescribed = 8;

std::string first_of(const std::vector<WorkerExit>& failures) {
  return failures.empty() ? "run workers" : failures.front().describe();
}

std::string others_of(const std::vector<WorkerExit>& failures, std::string_view note) {
  std::string text;
  const std::size_t others = failures.empty() ? 0 : failures.size() - 1;
  if (others != 0) text = std::to_string(others) + " more failed: ";
  for (std::size_t i = 0; i < std::min(others, kDescribed); ++i) {
    text.append(i == 0 ? "" : "; ").append(failures[i + 1].describe());
  }
  if (others > kDescribed) text.append("; and so on");
  if (!text.empty() && !note.empty()) text.append(". ");
  return text.append(note);
}

std::string signal_name(int number) {
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

}  // namespace

WorkersFailed::WorkersFailed(std::vector<WorkerExit> failures, std::string_view note)
    : Error(first_of(failures), 0, others_of(failures, note)), failures_(std::move(failures)) {}

Interrupted::Interrupted(int signal)
    : Error("interrupted by " + signal_name(signal), 0), signal_(signal) {}

}  // namespace passel::shm
