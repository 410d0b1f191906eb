#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace passel::train {

/// "0.1.0", or "0.1.0 (COMMIT)" for a build from a checkout.
std::string passel_version();

/// What this build and this machine are: passel_version, git_commit (builds
/// from a checkout), compiler, torch_version, cpu_model, cores_allowed, kernel,
/// memory_bytes, environment (the variables that change results or speed).
/// What cannot be found out is left out.
nlohmann::json describe_machine(const std::string& torch_version);

/// manifest.json: where, how and from what a run was started, and how it ended.
/// For the parent's main thread. Each change replaces the file atomically; a
/// file that cannot be written raises UsageError at construction and makes
/// finish() return false.
class Manifest {
 public:
  /// Writes describe_machine() and argv, seed, start_time (unix seconds), and the
  /// members of the object `more`. An older manifest in the same place (a resumed
  /// run) moves into "previous".
  Manifest(std::filesystem::path file, const std::vector<std::string>& argv, std::uint64_t seed,
           const std::string& torch_version, const nlohmann::json& more = nlohmann::json::object());

  /// Adds "exit": {reason, code, time}.
  bool finish(std::string_view reason, int exit_code);

  const nlohmann::json& contents() const { return contents_; }

 private:
  std::filesystem::path file_;
  nlohmann::json contents_;
};

/// The canaries (passel/train/canary.h) of the machines that a run was on, as its manifest says;
/// none where there is no manifest that can be read.
std::set<std::string> canaries_in(const std::filesystem::path& manifest);

}  // namespace passel::train
