#include "passel/train/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "file_text.h"
#include "passel/train/errors.h"
#include "passel/train/staleness_options.h"

namespace passel::train {
namespace {

using Line = nlohmann::ordered_json;

template <typename Value>
void put_if(Line& line, const char* key, const std::optional<Value>& value) {
  if (value) line[key] = *value;
}

// Counts up to the last one that is not zero; the last of all is the overflow.
Line counts_of(const StalenessHistogram& histogram) {
  Line counts = Line::array();
  for (std::size_t i = 0; i < StalenessHistogram::kBuckets; ++i)
    counts.push_back(histogram.count(i));
  counts.push_back(histogram.overflow());
  while (!counts.empty() && counts.back() == 0) counts.erase(counts.size() - 1);
  return counts;
}

// Bytes up to and with the last line break.
std::int64_t whole_lines(int fd, std::int64_t size) {
  std::array<char, 4096> block;
  while (size > 0) {
    const std::int64_t start = std::max<std::int64_t>(0, size - std::int64_t{block.size()});
    ssize_t got = 0;
    do {
      got = ::pread(fd, block.data(), static_cast<std::size_t>(size - start), start);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return size;  // unreadable: leave it alone
    const auto end = std::string_view(block.data(), static_cast<std::size_t>(got)).rfind('\n');
    if (end != std::string_view::npos) return start + static_cast<std::int64_t>(end) + 1;
    size = start;
  }
  return 0;
}

bool survives(const std::string& text, std::int64_t ticket) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) return false;
  const auto event = line.find("event");
  if (event == line.end() || *event == "summary") return false;
  if (*event != "train" && *event != "eval" && *event != "checkpoint" && *event != "memory") {
    return true;
  };
  const auto at = line.find("ticket");
  if (at == line.end() || !at->is_number_integer()) return false;
  return at->is_number_unsigned() ? std::cmp_less_equal(at->get<std::uint64_t>(), ticket)
                                  : at->get<std::int64_t>() <= ticket;
}

// How many of the bytes were written, and errno if it were not all.
std::size_t write_all(int fd, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path file) : file_(std::move(file)) {
  open();
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

void MetricsLog::open() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    throw UsageError(fmt::format("{}: expected a file that can be written, got: {}.",
                                 file_.string(), std::strerror(errno)));
  }
  ends_torn_ = false;
  size_ = whole_lines(fd_, status.st_size);
  if (size_ < status.st_size && ::ftruncate(fd_, size_) != 0) {
    throw UsageError(fmt::format("{}: expected whole lines, got a torn one that cannot be cut: {}.",
                                 file_.string(), std::strerror(errno)));
  }
}

template <typename Fill>
void MetricsLog::write(const char* event, Fill fill) noexcept {
  try {
    Line line = {{"event", event}, {"time", unix_time()}};
    fill(line);
    append(line.dump(-1, ' ', false, Line::error_handler_t::replace) + "\n");
  } catch (const std::exception& failure) {
    const std::lock_guard lock(mutex_);
    remember(failure.what());
  }
}

void MetricsLog::remember(std::string failure) {
  if (!failed_) error_ = std::move(failure);
  failed_ = true;
}

// The folder may be removed during a run; the next checkpoint makes it again.
void MetricsLog::reopen_if_removed() {
  struct stat status {};
  if (fd_ >= 0 && (::fstat(fd_, &status) != 0 || status.st_nlink > 0)) return;
  remember(
      fmt::format("{}: the file was removed, its lines are lost. Training goes on; later lines "
                  "go to a new file where its folder is there.",
                  file_.string()));
  open();
}

void MetricsLog::append(const std::string& line) {
  const std::lock_guard lock(mutex_);
  reopen_if_removed();
  const std::string text = ends_torn_ ? "\n" + line : line;
  const std::size_t written = write_all(fd_, text);
  if (written == text.size()) {
    size_ += static_cast<std::int64_t>(written);
    ends_torn_ = false;
    return;
  }
  remember(fmt::format("{}: a line was lost: {}. Training goes on; later lines may be lost too.",
                       file_.string(), std::strerror(errno)));
  // Part of a line must not run into the next one. If it cannot be cut either,
  // readers meet one line that is not JSON, as after a kill.
  if (written > 0 && ::ftruncate(fd_, size_) != 0) {
    size_ += static_cast<std::int64_t>(written);
    ends_torn_ = true;
  }
}

void MetricsLog::train(const TrainRecord& record) noexcept {
  write("train", [&](Line& line) {
    line["ticket"] = record.ticket;
    line["epoch"] = record.epoch;
    line["loss"] = record.loss;
    line["lr"] = record.lr;
    line["samples_per_second"] = record.samples_per_second;
    line["staleness_mean"] = record.staleness_mean;
    line["staleness_max"] = record.staleness_max;
    line["workers"] = record.workers;
  });
}

void MetricsLog::eval(const EvalRecord& record) noexcept {
  write("eval", [&](Line& line) {
    line["ticket"] = record.ticket;
    line["epoch"] = record.epoch;
    put_if(line, "test_accuracy", record.test_accuracy);
    put_if(line, "test_loss", record.test_loss);
  });
}

void MetricsLog::worker(const WorkerRecord& record) noexcept {
  write("worker", [&](Line& line) {
    line["slot"] = record.slot;
    line["incarnation"] = record.incarnation;
    line["state"] = record.state;
    put_if(line, "signal", record.signal);
    put_if(line, "exit_code", record.exit_code);
    if (!record.text.empty()) line["text"] = record.text;
  });
}

void MetricsLog::checkpoint(const CheckpointRecord& record) noexcept {
  write("checkpoint", [&](Line& line) {
    line["ticket"] = record.ticket;
    line["epoch"] = record.epoch;
    line["file"] = record.file.string();
    line["seconds"] = record.seconds;
    line["best"] = record.best;
    line["version"] = record.version;
    line["param_hash"] = record.param_hash;
    line["tensors"] = record.tensors;
  });
}

void MetricsLog::memory(const MemoryRecord& record) noexcept {
  write("memory", [&](Line& line) {
    line["ticket"] = record.ticket;
    line["slot"] = record.slot;
    line["allocated_bytes"] = record.allocated;
    line["reserved_bytes"] = record.reserved;
    line["peak_bytes"] = record.peak;
    line["cache_emptied"] = record.emptied;
    line["computed_seconds"] = record.seconds;
  });
}

void MetricsLog::summary(const SummaryRecord& record) noexcept {
  write("summary", [&](Line& line) {
    line["tickets"] = record.tickets;
    line["samples"] = record.samples;
    line["seconds"] = record.seconds;
    line["samples_per_second"] = record.samples_per_second;
    put_if(line, "test_accuracy", record.test_accuracy);
    put_if(line, "test_loss", record.test_loss);
    line["param_hash"] = record.param_hash;
    line["mode"] = record.mode;
    line["workers"] = record.workers;
    line["respawns"] = record.respawns;
    line["redone"] = record.redone;
    line["rejected"] = record.rejected;
    line["staleness_mean"] = record.staleness.mean();
    line["staleness_max"] = record.staleness.max();
    line["staleness_counts"] = counts_of(record.staleness);
    line["staleness_by_worker"] = Line::array();
    for (const auto& worker : record.worker_staleness) {
      line["staleness_by_worker"].push_back(counts_of(worker));
    }
    line["implied_momentum"] = implied_momentum(record.staleness.mean());
    if (!record.checkpoint.empty()) line["checkpoint"] = record.checkpoint.string();
  });
}

void MetricsLog::truncate_after(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  const std::string text = read_text(file_);
  std::string kept;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find('\n', start), text.size());
    const std::string line = text.substr(start, end - start);
    if (survives(line, ticket)) kept += line + "\n";
    start = end + 1;
  }
  try {
    replace_text(file_, kept);
  } catch (const FileError& error) {
    throw UsageError(
        fmt::format("out: expected a folder that can be written, got {}.", error.what()));
  }
  open();
}

std::optional<std::string> MetricsLog::take_error() {
  const std::lock_guard lock(mutex_);
  return std::exchange(error_, std::nullopt);
}

}  // namespace passel::train
