#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>

namespace passel::tensorboard {

/// One point of a curve.
struct Scalar {
  const char* tag;  ///< curves with the same text before the '/' stand together
  double value;     ///< kept as a float
};

/// Scalars in a file that TensorBoard reads while it grows.
///
/// Records are appended whole. Writing never throws and never ends a run: a
/// failed write is remembered for take_error(). For one thread.
class EventFile {
 public:
  /// Begins a file in `folder`, named so that it sorts behind the event files
  /// that are there: events.out.tfevents.<unix seconds>.<host>.<pid>.<files before it>.
  /// With `resumed_at`, points of these files at later steps are void:
  /// TensorBoard drops them, so that curves do not double.
  /// Throws std::system_error if the file cannot be made.
  explicit EventFile(const std::filesystem::path& folder,
                     std::optional<std::int64_t> resumed_at = {});
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Adds a point at `step` to each of the curves.
  void scalars(std::int64_t step, std::initializer_list<Scalar> points) noexcept;

  /// The first failed write as a sentence, to the first call after it only.
  std::optional<std::string> take_error();

  const std::filesystem::path& path() const { return path_; }

 private:
  template <typename Fill>
  void write(std::int64_t step, Fill fill) noexcept;
  void append(const std::string& record);
  void fail(const char* reason);

  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t size_ = 0;  // bytes of whole records
  bool failed_ = false;
  std::optional<std::string> error_;  // until taken
};

}  // namespace passel::tensorboard
