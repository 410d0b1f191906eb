#include "passel/train/manifest.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "file_text.h"
#include "passel/train/errors.h"
#include "passel/train/machine_limits.h"

namespace passel::train {
namespace {

constexpr std::array<std::string_view, 6> kVariables = {
    "ATEN_CPU_CAPABILITY=", "CUDA_", "KMP_", "MKL_", "OMP_", "OPENBLAS_"};

using nlohmann::json;

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      const auto value = line.find_first_not_of(": \t", line.find(':'));
      return value == std::string::npos ? std::string() : line.substr(value);
    }
  }
  return {};
}

std::string kernel() {
  utsname name{};
  if (::uname(&name) != 0) return {};
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

json environment() {
  json variables = json::object();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    for (const std::string_view prefix : kVariables) {
      if (equals != std::string_view::npos && text.starts_with(prefix)) {
        variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
      }
    }
  }
  return variables;
}

constexpr const char* compiler() {
#ifdef __clang__
  return __VERSION__;
#else
  return "GCC " __VERSION__;
#endif
}

// Empty for a build from a source archive.
#ifdef PASSEL_GIT_COMMIT
constexpr std::string_view kCommit = PASSEL_GIT_COMMIT;
#else
constexpr std::string_view kCommit;
#endif

// Arguments and variables may be any bytes.
std::string dump(const json& contents) {
  return contents.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string passel_version() {
  return kCommit.empty() ? PASSEL_VERSION : fmt::format("{} ({})", PASSEL_VERSION, kCommit);
}

json describe_machine(const std::string& torch_version) {
  json machine = {{"passel_version", PASSEL_VERSION},
                  {"compiler", compiler()},
                  {"torch_version", torch_version},
                  {"environment", environment()}};
  if (!kCommit.empty()) machine["git_commit"] = kCommit;
  if (const std::string model = cpu_model(); !model.empty()) machine["cpu_model"] = model;
  if (const int cores = cores_allowed(); cores > 0) machine["cores_allowed"] = cores;
  if (const std::string name = kernel(); !name.empty()) machine["kernel"] = name;
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  if (pages > 0) machine["memory_bytes"] = std::int64_t{pages} * ::sysconf(_SC_PAGESIZE);
  return machine;
}

Manifest::Manifest(std::filesystem::path file, const std::vector<std::string>& argv,
                   std::uint64_t seed, const std::string& torch_version, const json& more)
    : file_(std::move(file)), contents_(describe_machine(torch_version)) {
  contents_["argv"] = argv;
  contents_["seed"] = seed;
  contents_["start_time"] = unix_time();
  contents_.update(more);
  json previous = json::parse(read_text(file_), nullptr, false);
  if (previous.is_object()) {
    json earlier = previous.value("previous", json::array());
    if (!earlier.is_array()) earlier = json::array();
    previous.erase("previous");
    earlier.push_back(std::move(previous));
    contents_["previous"] = std::move(earlier);
  }
  try {
    replace_text(file_, dump(contents_));
  } catch (const FileError& error) {
    throw UsageError(
        fmt::format("out: expected a folder that can be written, got {}.", error.what()));
  }
}

bool Manifest::finish(std::string_view reason, int exit_code) {
  contents_["exit"] = {{"reason", reason}, {"code", exit_code}, {"time", unix_time()}};
  try {
    replace_text(file_, dump(contents_));
    return true;
  } catch (const FileError&) {
    return false;
  }
}

std::set<std::string> canaries_in(const std::filesystem::path& manifest) {
  std::set<std::string> canaries;
  const auto add = [&](const json& start) {
    if (!start.is_object()) return;
    const auto canary = start.find("canary");
    if (canary != start.end() && canary->is_string()) canaries.insert(canary->get<std::string>());
  };
  try {
    const json newest = json::parse(read_text(manifest), nullptr, false);
    add(newest);
    if (newest.is_object() && newest.contains("previous")) {
      for (const json& start : newest["previous"]) add(start);
    }
  } catch (const DataError&) {
    return {};
  }
  return canaries;
}

}  // namespace passel::train
