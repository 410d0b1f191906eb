#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace passel::train {

/// What metrics.jsonl keeps of the parameters at one checkpoint.
struct CheckpointHashes {
  std::int64_t version;                        ///< updates made
  std::string parameters;                      ///< see param_hash()
  std::map<std::string, std::string> tensors;  ///< see tensor_hashes()
};

/// By ticket.
using HashHistory = std::map<std::int64_t, CheckpointHashes>;

/// The checkpoint events of a metrics.jsonl. Lines that are torn or of another kind are passed
/// over. Throws DataError when the file cannot be read.
HashHistory read_hashes(const std::filesystem::path& metrics);

/// Where a history first differs from what is expected; empty when it has every expected ticket
/// with the same hashes. A sentence that names the ticket and the tensors.
std::optional<std::string> first_difference(const HashHistory& expected, const HashHistory& got,
                                            std::string_view unit = "ticket");

}  // namespace passel::train
