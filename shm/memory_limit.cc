#include "passel/shm/memory_limit.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace passel::shm {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

std::optional<std::uint64_t> read_number(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t value = 0;
  if (in >> value) return value;  // "max" is no number: no limit
  return std::nullopt;
}

/// The number after `key` in a file of "key number" lines.
std::optional<std::uint64_t> read_field(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::strtoull(line.c_str() + key.size(), nullptr, 10);
  }
  return std::nullopt;
}

struct Names {
  const char* limit;
  const char* usage;
  const char* cache;
};
constexpr Names kVersion2{"memory.max", "memory.current", "inactive_file "};
constexpr Names kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

std::uint64_t room(const fs::path& group, const Names& names) {
  const auto limit = read_number(group / names.limit);
  const auto usage = read_number(group / names.usage);
  if (!limit || !usage) return kUnlimited;
  const auto cache = read_field(group / "memory.stat", names.cache).value_or(0);
  const std::uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}

/// The least room of a group and all above it: each level has its own limit.
std::uint64_t room_up_to_root(const fs::path& root, fs::path group, const Names& names) {
  std::uint64_t least = room(root, names);
  for (group = group.relative_path(); !group.empty(); group = group.parent_path()) {
    least = std::min(least, room(root / group, names));
  }
  return least;
}

/// Whether a list with commas has this word.
bool lists(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const auto comma = std::min(words.find(','), words.size());
    if (words.substr(0, comma) == word) return true;
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  return false;
}

}  // namespace

std::uint64_t available_memory(const fs::path& proc, const fs::path& cgroup) {
  std::uint64_t least = kUnlimited;
  if (const auto kib = read_field(proc / "meminfo", "MemAvailable:")) least = *kib * 1024;

  // Lines are "id:controllers:path"; version 2 has an empty list of controllers.
  std::ifstream in(proc / "self" / "cgroup");
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const auto controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) least = std::min(least, room_up_to_root(cgroup, group, kVersion2));
    if (lists(controllers, "memory")) {
      least = std::min(least, room_up_to_root(cgroup / "memory", group, kVersion1));
    }
  }
  return least;
}

}  // namespace passel::shm
