#include "passel/train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include "file_text.h"
#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "passel/train/file_kind.h"

namespace passel::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& root, const fs::path& part, std::string_view reason) {
  throw UsageError(
      fmt::format("out: expected a folder that can be made, got {}: {} ({}). "
                  "Choose another place with --out.",
                  root.string(), reason, part.string()));
}

void make_parent(const fs::path& root) {
  const fs::path parent = root.parent_path();
  std::error_code error;
  if (!parent.empty()) fs::create_directories(parent, error);
  if (error) refuse(root, parent, error.message());
}

// False: something of that name exists.
bool make_folder(const fs::path& root, const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0777) == 0) return true;
  if (errno != EEXIST) refuse(root, folder, std::strerror(errno));
  return false;
}

fs::path make_named(fs::path root) {
  if (!root.has_filename()) root = root.parent_path();  // a trailing slash
  make_parent(root);
  if (make_folder(root, root)) return root;
  std::error_code error;
  if (!fs::is_directory(root, error)) refuse(root, root, fmt::format("it is {}", file_kind(root)));
  if (fs::is_empty(root, error) && !error) return root;
  if (error) refuse(root, root, error.message());
  throw UsageError(fmt::format("out: expected a new or empty folder, got {}, which holds {}.",
                               root.string(),
                               !RunFolder::is_run_folder(root) ? "files. Choose another"
                               : fs::is_empty(root / "checkpoints", error)
                                   ? "a run without a checkpoint. Remove it, or choose another"
                                   : "a run. Continue it with `passel resume`, or choose another"));
}

// Runs that start within one second get a number.
fs::path make_default(const Config& config) {
  const fs::path base =
      fmt::format("runs/{:%Y%m%d-%H%M%S}-{}-{}", fmt::localtime(std::time(nullptr)), config.dataset,
                  config.mode);
  make_parent(base);
  fs::path root = base;
  for (int number = 2; !make_folder(root, root); ++number) {
    root = fmt::format("{}-{}", base.string(), number);
  }
  return root;
}

}  // namespace

RunFolder RunFolder::create(const Config& config, const fs::path& root) {
  validate(config);
  RunFolder folder(root.empty() ? make_default(config) : make_named(root));
  make_folder(folder.root_, folder.checkpoints());
  try {
    replace_text(folder.config(), to_toml(config));
  } catch (const FileError& error) {
    std::error_code ignored;  // an empty folder may be used by the next try
    fs::remove(folder.config(), ignored);
    fs::remove(folder.checkpoints(), ignored);
    refuse(folder.root_, folder.config(), std::strerror(error.error_number()));
  }
  return folder;
}

RunFolder RunFolder::open(const fs::path& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (!fs::exists(status)) {
    throw UsageError(fmt::format(
        "{}: expected a run folder, got nothing there: {}. From a checkpoint that is left of a run "
        "go on in a new folder: `passel train --resume FILE` with the options of that run.",
        root.string(), error ? error.message() : "No such file or directory"));
  }
  if (!is_run_folder(root)) {
    throw DataError(fmt::format(
        "{}: expected a run folder, got {}. A run folder holds config.toml and checkpoints/, as "
        "`passel train` makes them; from a checkpoint alone go on in a new folder: `passel train "
        "--resume FILE` with the options of its run.",
        root.string(), fs::is_directory(status) ? "a folder without these" : file_kind(root)));
  }
  return RunFolder(root);
}

bool RunFolder::is_run_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "config.toml", error) &&
         fs::is_directory(path / "checkpoints", error);
}

fs::path RunFolder::worker_log(int slot) const {
  return root_ / fmt::format("worker-{}.log", slot);
}

// Without its last lines it would still be a configuration, with defaults in their place.
Config RunFolder::read_config() const {
  try {
    const std::string text = read_config_text(config());
    if (text.find(kTomlEnd) == std::string::npos) {
      throw UsageError(fmt::format(
          "{}: expected its last line '{}', got a file that was cut. `passel inspect` of one of "
          "the checkpoints prints the configuration again; or go on in a new run folder with "
          "`passel train --resume {}/FILE` and the options of this run.",
          config().string(), kTomlEnd, checkpoints().string()));
    }
    return config_from_toml(text, config().string());
  } catch (const UsageError& error) {
    throw DataError(fmt::format("damaged run folder: {}", error.what()));
  }
}

void RunFolder::write_config(const Config& config) const {
  try {
    replace_text(this->config(), to_toml(config));
  } catch (const FileError& error) {
    throw UsageError(fmt::format(
        "{}: expected a run folder that can be written, got: {}. Make room there, or make it "
        "writable, and resume again; the run is as it was.",
        this->config().string(), std::strerror(error.error_number())));
  }
}

}  // namespace passel::train
