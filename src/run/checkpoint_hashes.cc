#include "passel/train/checkpoint_hashes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "file_text.h"

namespace passel::train {
namespace {

std::optional<std::pair<std::int64_t, CheckpointHashes>> parse(const std::string& text) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  if (!line.is_object()) return std::nullopt;
  try {
    if (line.at("event") != "checkpoint") return std::nullopt;
    if (!line.at("ticket").is_number_integer()) return std::nullopt;
    if (!line.at("version").is_number_integer()) return std::nullopt;
    const auto ticket = line["ticket"].get<std::int64_t>();
    if (ticket < 0) return std::nullopt;  // or more than there can be
    return std::pair(
        ticket, CheckpointHashes{line.at("version").get<std::int64_t>(),
                                 line.at("param_hash").get<std::string>(),
                                 line.at("tensors").get<std::map<std::string, std::string>>()});
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string difference(const CheckpointHashes& expected, const CheckpointHashes& got) {
  std::vector<std::string> parts;
  for (const auto& [name, hash] : expected.tensors) {
    const auto found = got.tensors.find(name);
    const std::string other = found == got.tensors.end() ? "nothing" : found->second;
    if (other != hash) parts.push_back(fmt::format("{} is {} instead of {}", name, other, hash));
  }
  if (parts.empty()) {
    return fmt::format("the parameters together are {} instead of {}", got.parameters,
                       expected.parameters);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

HashHistory read_hashes(const std::filesystem::path& metrics) {
  std::istringstream in(read_whole(metrics));
  HashHistory history;
  for (std::string line; std::getline(in, line);) {
    if (auto entry = parse(line)) history.insert_or_assign(entry->first, std::move(entry->second));
  }
  return history;
}

std::optional<std::string> first_difference(const HashHistory& expected, const HashHistory& got,
                                            std::string_view unit) {
  for (const auto& [ticket, hashes] : expected) {
    const auto found = got.find(ticket);
    if (found == got.end()) return fmt::format("{} {}: there is no checkpoint", unit, ticket);
    if (found->second.parameters == hashes.parameters && found->second.tensors == hashes.tensors) {
      continue;
    }
    return fmt::format("{} {}: {}", unit, ticket, difference(hashes, found->second));
  }
  return std::nullopt;
}

}  // namespace passel::train
