#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace passel::train {

/// What mode recorded notes of an update: with the run's configuration, enough to repeat it.
struct UpdateRecord {
  std::uint32_t ticket;
  std::uint32_t base;     ///< version that the gradient was computed from
  std::uint32_t version;  ///< version that it was applied to, which made version + 1
  float loss;

  bool operator==(const UpdateRecord&) const = default;
};
static_assert(sizeof(UpdateRecord) == 16);

/// updates.log: a header of 16 bytes, then UpdateRecords in the order in which the parent learned
/// of them. Written with one call a record, so a kill leaves at worst a torn last one.
/// For the coordinating thread.
class UpdateLog {
 public:
  /// Opens or makes the file, and drops records of versions from `version` on and a torn last one.
  /// Throws UsageError if it cannot, DataError if it is no such file.
  UpdateLog(std::filesystem::path file, std::int64_t version);
  ~UpdateLog();
  UpdateLog(const UpdateLog&) = delete;
  UpdateLog& operator=(const UpdateLog&) = delete;

  void add(const UpdateRecord& record) noexcept;

  /// The first failed write as a sentence, to the first call after it only.
  std::optional<std::string> take_error();

 private:
  std::filesystem::path file_;
  int fd_ = -1;
  int error_number_ = 0;  // of the first failed write
  bool told_ = false;
};

/// Of a run that is resumed at `version`: a warning where updates before it are missing, which a
/// replay will need.
/// @param from_start it began at version 0, not with the checkpoint of another run
std::optional<std::string> missing_updates(const std::filesystem::path& file, std::int64_t version,
                                           bool from_start);

/// The records by version, which must follow one another without a gap. Throws DataError naming
/// what is wrong.
std::vector<UpdateRecord> read_updates(const std::filesystem::path& file);

}  // namespace passel::train
