#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace passel::train {

/// A user's word as an error text shows it: in quotes, cut after 48 bytes, and
/// with control characters escaped.
std::string in_quotes(std::string_view text);

/// "1 worker", "2 workers".
std::string counted(std::int64_t count, std::string_view thing);

/// The candidate with the smallest edit distance to `word`, or an empty string
/// if none is near enough to be what was meant (edits of a third of the word, at
/// least one). The first one wins a tie.
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

/// " Did you mean NAME?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace passel::train
