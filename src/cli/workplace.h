#pragma once

#include <filesystem>
#include <string_view>

#include "passel/train/run_folder.h"

namespace passel::train {

/// A new folder in a run's for its repetition, removed at the end unless it is kept. Only one
/// process at a time, which has the lock of the run's folder, has one there: others of that name
/// were left by a kill and are removed.
class Workplace {
 public:
  /// Throws UsageError where the run's folder cannot be written.
  explicit Workplace(const RunFolder& folder);
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// Under another name, without the dot.
  void keep();

 private:
  static constexpr std::string_view kPrefix = ".verify-";

  static void sweep(const std::filesystem::path& root);

  std::filesystem::path path_;
  bool kept_ = false;
};

}  // namespace passel::train
