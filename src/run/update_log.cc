#include "passel/train/update_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include "file_text.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian");

constexpr std::string_view kHeader = "passel updates 1";
static_assert(kHeader.size() == sizeof(UpdateRecord));

std::vector<UpdateRecord> parse(const std::filesystem::path& file, const std::string& text) {
  if (!text.starts_with(kHeader)) {
    throw DataError(
        fmt::format("{}: expected a record of updates, got something else", file.string()));
  }
  std::vector<UpdateRecord> records(text.size() / sizeof(UpdateRecord) - 1);
  std::memcpy(records.data(), text.data() + kHeader.size(), records.size() * sizeof(UpdateRecord));
  return records;
}

std::string header_and(const std::vector<UpdateRecord>& records) {
  std::string text(kHeader);
  text.append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(UpdateRecord));
  return text;
}

}  // namespace

UpdateLog::UpdateLog(std::filesystem::path file, std::int64_t version) : file_(std::move(file)) {
  std::vector<UpdateRecord> kept;
  if (const std::string text = read_text(file_); !text.empty()) kept = parse(file_, text);
  std::erase_if(kept, [&](const UpdateRecord& record) { return record.version >= version; });
  try {
    replace_text(file_, header_and(kept));
  } catch (const FileError& error) {
    throw UsageError(
        fmt::format("out: expected a folder that can be written, got {}.", error.what()));
  }
  fd_ = open(file_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) {
    throw UsageError(fmt::format("{}: expected a file that can be written, got: {}.",
                                 file_.string(), std::strerror(errno)));
  }
}

UpdateLog::~UpdateLog() {
  close(fd_);
}

void UpdateLog::add(const UpdateRecord& record) noexcept {
  // After a failure the record has a gap already, and what follows would only be misread.
  if (error_number_ != 0) return;
  ssize_t written = 0;
  do {
    written = write(fd_, &record, sizeof(record));
  } while (written < 0 && errno == EINTR);
  if (written != sizeof(record)) error_number_ = written < 0 ? errno : ENOSPC;
}

std::optional<std::string> UpdateLog::take_error() {
  if (error_number_ == 0 || told_) return std::nullopt;
  told_ = true;
  return fmt::format(
      "{}: an update could not be noted: {}. Training goes on, but this run cannot be replayed "
      "beyond here",
      file_.string(), std::strerror(error_number_));
}

std::optional<std::string> missing_updates(const std::filesystem::path& file, std::int64_t version,
                                           bool from_start) {
  const std::string text = read_text(file);
  std::set<std::int64_t> noted;
  if (!text.empty()) {
    for (const UpdateRecord& record : parse(file, text)) noted.insert(record.version);
    if (noted.empty() && !from_start) return std::nullopt;  // it may begin here
  }
  std::int64_t missing = noted.empty() || from_start ? 0 : *noted.begin();
  while (noted.contains(missing)) ++missing;
  if (missing >= version) return std::nullopt;
  return fmt::format(
      "{}: expected the updates up to {}, where the run goes on, but from {} on some are missing: "
      "it goes on, but `passel replay` will not be able to repeat it",
      file.string(), version - 1, missing);
}

std::vector<UpdateRecord> read_updates(const std::filesystem::path& file) {
  std::vector<UpdateRecord> records = parse(file, read_whole(file));
  std::ranges::sort(records, {}, &UpdateRecord::version);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const UpdateRecord& record = records[i];
    if (record.version != records[0].version + i || record.base > record.version) {
      throw DataError(fmt::format(
          "{}: expected update {} computed from an earlier version, got update {} from version {}",
          file.string(), records[0].version + i, record.version, record.base));
    }
  }
  return records;
}

}  // namespace passel::train
