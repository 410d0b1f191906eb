#pragma once

#include <filesystem>
#include <utility>

#include "passel/train/config.h"

namespace passel::train {

/// The folder of one run and the names of the files in it:
/// config.toml, manifest.json, metrics.jsonl, worker-N.log, checkpoints/.
class RunFolder {
 public:
  /// Makes the folder config.out, or runs/<YYYYmmdd-HHMMSS>-<dataset>-<mode>
  /// where that is empty, with config.toml and an empty checkpoints/ in it.
  /// Throws UsageError if the folder exists and is not empty, or cannot be made.
  static RunFolder create(const Config& config) { return create(config, config.out); }
  /// The same in `root`, whatever config.out says; its name may be any bytes.
  static RunFolder create(const Config& config, const std::filesystem::path& root);

  /// Throws UsageError if there is no folder at `root`, DataError if it is not
  /// a run folder.
  static RunFolder open(const std::filesystem::path& root);

  /// True for a folder with a config.toml and checkpoints/ in it.
  static bool is_run_folder(const std::filesystem::path& path);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path config() const { return root_ / "config.toml"; }
  std::filesystem::path manifest() const { return root_ / "manifest.json"; }
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path updates() const { return root_ / "updates.log"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path worker_log(int slot) const;

  /// The configuration in config.toml; throws DataError if it is damaged.
  Config read_config() const;
  /// Replaces config.toml (a resumed run with overrides); throws UsageError if
  /// it cannot be written.
  void write_config(const Config& config) const;

 private:
  explicit RunFolder(std::filesystem::path root) : root_(std::move(root)) {}

  std::filesystem::path root_;
};

}  // namespace passel::train
