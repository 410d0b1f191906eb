#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <variant>

#include "passel/train/config.h"

namespace passel::train {

/// What the command line asks for.
struct Command {
  enum class Kind { kTrain, kEval, kResume, kVerify, kReplay, kInspect, kExport };

  Kind kind = Kind::kTrain;
  Config config;                 ///< train: validated
  bool print_config = false;     ///< train: print to_toml(config) and stop
  std::filesystem::path target;  ///< all but train: a run folder or a checkpoint
  Overrides overrides;           ///< resume; verify, replay: data, workers
  bool simulate = false;         ///< train, resume, verify, replay: no worker processes
  bool chaos = false;            ///< verify, replay: disturb the workers
  std::optional<std::filesystem::path> data;  ///< eval: where the data set is now
  std::filesystem::path output;               ///< export: the .pt file; empty: beside the target
};

/// Reads a command line. Returns an exit code where all is said already
/// (--help, --version: printed to `out`). Throws UsageError, one sentence or
/// two, for anything else that is not a command.
std::variant<Command, int> parse(int argc, const char* const* argv,
                                 const std::string& torch_version, std::ostream& out);

}  // namespace passel::train
