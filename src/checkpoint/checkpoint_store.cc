#include "passel/train/checkpoint_store.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <system_error>
#include <utility>

#include "checkpoint_metadata.h"
#include "passel/train/atomic_file.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";
constexpr const char* kBestName = "best.safetensors";

std::string file_name(std::int64_t ticket) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%09lld", static_cast<long long>(ticket));
  return std::string(kPrefix) + digits.data() + std::string(kSuffix);
}

std::optional<std::int64_t> ticket_of(const std::string& name) {
  std::int64_t ticket = -1;
  if (name.size() > kPrefix.size() + kSuffix.size() && name.starts_with(kPrefix)) {
    const char* begin = name.data() + kPrefix.size();
    std::from_chars(begin, name.data() + name.size(), ticket);
  }
  return ticket >= 0 && file_name(ticket) == name ? std::optional(ticket) : std::nullopt;
}

/// The numbered checkpoints, newest first.
std::vector<NumberedFile> list(const fs::path& directory) {
  std::vector<NumberedFile> found;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto ticket = ticket_of(entry->path().filename().string())) {
      found.push_back({*ticket, entry->path()});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw DataError(directory.string() + ": the checkpoints cannot be listed: " + error.message());
  }
  std::sort(found.begin(), found.end(),
            [](const NumberedFile& a, const NumberedFile& b) { return a.ticket > b.ticket; });
  return found;
}

bool beats(const CheckpointInfo& a, const std::optional<CheckpointInfo>& b) {
  if (!a.score || std::isnan(*a.score)) {
    return false;
  }
  return !b || !b->score || (a.higher_is_better ? *a.score > *b->score : *a.score < *b->score);
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path directory, int keep_last, Report report)
    : directory_(std::move(directory)), keep_last_(keep_last), report_(std::move(report)) {
  if (keep_last < 1) {
    throw UsageError("at least 1 checkpoint must be kept, not " + std::to_string(keep_last));
  }
}

fs::path CheckpointStore::save(const CheckpointInfo& info, std::span<const TensorView> tensors,
                               const Metadata& metadata) {
  if (info.ticket < 0 || info.epoch < 0) {
    throw UsageError("a checkpoint needs a ticket and an epoch that are not negative");
  }
  prepare_folder();
  prepared_ = false;  // a save that fails may leave a temporary, or a best that it did not note
  const Metadata complete = with_checkpoint_info(metadata, info);
  fs::path path = directory_ / file_name(info.ticket);
  // The best first: a run that is killed in between and resumed must not have lost it.
  const bool best_is_settled = save_if_best(info, tensors, complete);
  write_safetensors(path, tensors, complete);
  prepared_ = best_is_settled;
  retire(info.ticket);
  return path;
}

void CheckpointStore::prepare_folder() {
  std::error_code error;
  const bool made = fs::create_directories(directory_, error);
  if (error) {
    throw FileError(directory_.string() + ": the folder cannot be created: " + error.message(),
                    error.value());
  }
  if (prepared_ && !made) {
    return;
  }
  if (prepared_) {
    report(directory_.string() + " was removed with all its checkpoints and is made again");
  }
  sweep_temporaries(directory_);
  look_at_best();
}

void CheckpointStore::look_at_best() {
  const auto leave_alone = [this](const DataError& error) {
    best_may_be_replaced_ = false;
    report(std::string(error.what()) + "; it is left as it is");
  };
  best_.reset();
  best_may_be_replaced_ = true;
  std::error_code error;
  const fs::path path = directory_ / kBestName;
  if (!fs::exists(path, error) && !error) {
    return;
  }
  try {
    best_ = checkpoint_info(open_checkpoint(path));
  } catch (const NewerFormat& newer) {
    leave_alone(newer);
  } catch (const ReadError& unread) {
    leave_alone(unread);
  } catch (const DataError& damaged) {
    report(damaged.what());
  }
}

bool CheckpointStore::save_if_best(const CheckpointInfo& info, std::span<const TensorView> tensors,
                                   const Metadata& metadata) {
  if (!best_may_be_replaced_ || !beats(info, best_)) {
    return best_may_be_replaced_;
  }
  try {
    write_safetensors(directory_ / kBestName, tensors, metadata);
    best_ = info;
    return true;
  } catch (const FileError& error) {
    report(error.what());
    return false;
  }
}

void CheckpointStore::retire(std::int64_t saved_ticket) const {
  int kept = 0;
  try {
    for (const NumberedFile& checkpoint : list(directory_)) {
      std::error_code error;
      if (!fs::is_regular_file(checkpoint.path, error)) {
        continue;
      }
      if (checkpoint.ticket <= saved_ticket && kept < keep_last_) {
        ++kept;
        continue;
      }
      if (!fs::remove(checkpoint.path, error) && error) {
        report(checkpoint.path.string() + " cannot be deleted: " + error.message());
      }
    }
  } catch (const DataError& error) {
    report(error.what());  // what was to be saved is saved
  }
}

void CheckpointStore::report(const std::string& sentence) const {
  if (report_) {
    report_(sentence);
  }
}

std::optional<CheckpointInfo> CheckpointStore::try_read(const fs::path& path) const {
  try {
    return checkpoint_info(open_checkpoint(path));
  } catch (const NewerFormat&) {
    throw;
  } catch (const DataError& error) {
    report(std::string(error.what()) + "; this checkpoint is passed over");
    return std::nullopt;
  }
}

std::vector<NumberedFile> CheckpointStore::files() const {
  return list(directory_);
}

std::optional<CheckpointInfo> CheckpointStore::best() const {
  std::error_code error;
  const fs::path path = directory_ / kBestName;
  return fs::exists(path, error) || error ? try_read(path) : std::nullopt;
}

std::optional<CheckpointInfo> CheckpointStore::latest() const {
  const std::vector<NumberedFile> checkpoints = list(directory_);
  std::optional<CheckpointInfo> newest;
  bool damaged = false;
  for (const NumberedFile& checkpoint : checkpoints) {
    newest = try_read(checkpoint.path);
    if (newest) {
      break;
    }
    damaged = true;
  }
  if (newest && !damaged) {
    return newest;
  }
  // A best checkpoint beyond the newest numbered one belongs to a future that was given up.
  const std::optional<CheckpointInfo> fallback = best();
  if (fallback && (checkpoints.empty() || fallback->ticket <= checkpoints.front().ticket) &&
      (!newest || fallback->ticket > newest->ticket)) {
    newest = fallback;
  }
  if (!newest && damaged) {
    throw DataError(directory_.string() + ": all " + std::to_string(checkpoints.size()) +
                    " checkpoints are damaged or unreadable; start the run anew, or restore one");
  }
  return newest;
}

}  // namespace passel::train
