#include "passel/train/wording.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace passel::train {
namespace {

constexpr std::size_t kLongestName = 64;  // more is no misspelling, and costs its square

constexpr std::size_t kLongestQuote = 48;

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string in_quotes(std::string_view text) {
  using nlohmann::json;
  const json cut = text.substr(0, kLongestQuote);
  return cut.dump(-1, ' ', true, json::error_handler_t::replace) +
         (text.size() > kLongestQuote ? "..." : "");
}

std::string counted(std::int64_t count, std::string_view thing) {
  return std::to_string(count).append(" ").append(thing).append(count == 1 ? "" : "s");
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kLongestName) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, (word.size() + 1) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? name : " Did you mean " + name + "?";
}

}  // namespace passel::train
