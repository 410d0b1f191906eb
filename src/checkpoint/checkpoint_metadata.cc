#include "checkpoint_metadata.h"

#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

namespace passel::train {
namespace {

constexpr const char* kVersionKey = "passel.format_version";
constexpr const char* kTicketKey = "passel.ticket";
constexpr const char* kEpochKey = "passel.epoch";
constexpr const char* kScoreKey = "passel.score";
constexpr const char* kDirectionKey = "passel.higher_is_better";

[[noreturn]] void fail(const SafetensorsFile& file, const std::string& cause) {
  throw DataError(file.path().string() + ": " + cause);
}

std::string_view text_of(const SafetensorsFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end()) {
    fail(file, std::string("not a checkpoint of Passel: its metadata lacks ") + key);
  }
  return found->second;
}

template <typename Number>
Number number_of(const SafetensorsFile& file, const char* key) {
  const std::string_view text = text_of(file, key);
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < Number{}) {
    fail(file, std::string(key) + " is not a number that is allowed there: \"" + std::string(text) +
                   "\"");
  }
  return number;
}

double score_of(const SafetensorsFile& file) {
  const std::string_view text = text_of(file, kScoreKey);
  double score = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, score);
  if (error != std::errc() || stop != end) {
    fail(file, std::string(kScoreKey) + " is not a number: \"" + std::string(text) + "\"");
  }
  return score;
}

std::string exact_text(double value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

}  // namespace

Metadata with_checkpoint_info(Metadata metadata, const CheckpointInfo& info) {
  metadata[kVersionKey] = std::to_string(kCheckpointFormatVersion);
  metadata[kTicketKey] = std::to_string(info.ticket);
  metadata[kEpochKey] = std::to_string(info.epoch);
  metadata[kDirectionKey] = info.higher_is_better ? "true" : "false";
  metadata.erase(kScoreKey);
  if (info.score) {
    metadata[kScoreKey] = exact_text(*info.score);
  }
  return metadata;
}

SafetensorsFile open_checkpoint(const std::filesystem::path& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  const int version = number_of<int>(file, kVersionKey);
  if (version > kCheckpointFormatVersion) {
    throw NewerFormat(path.string() + ": this checkpoint has format " + std::to_string(version) +
                      ", but this program reads formats up to " +
                      std::to_string(kCheckpointFormatVersion) +
                      "; use the version of Passel that wrote it, or a newer one");
  }
  if (version < kCheckpointFormatVersion) {
    fail(file, "this checkpoint has format " + std::to_string(version) + ", which no Passel wrote");
  }
  if (!file.has_checksums() && !file.says_no_checksums()) {
    fail(file,
         "the checksums of a checkpoint are missing; it was changed by another program. One that "
         "does so on purpose sets the metadata passel.checksum to none");
  }
  return file;
}

CheckpointInfo checkpoint_info(const SafetensorsFile& file) {
  CheckpointInfo info;
  info.path = file.path();
  info.ticket = number_of<std::int64_t>(file, kTicketKey);
  info.epoch = number_of<std::int64_t>(file, kEpochKey);
  info.higher_is_better = text_of(file, kDirectionKey) == "true";
  if (file.metadata().contains(kScoreKey)) {
    info.score = score_of(file);
  }
  return info;
}

}  // namespace passel::train
