// The subset of TOML that a configuration needs: flat keys with values that are
// written as in JSON, besides literal strings in single quotes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "passel/train/input_file.h"
#include "passel/train/wording.h"

namespace passel::train {
namespace {

constexpr std::string_view kBlank = " \t\r";

constexpr std::size_t kLargestFile = 1 << 20;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors begin UTF-8 with it

using nlohmann::json;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Cuts a comment; '#' within quotes is none.
std::string_view without_comment(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '"' && c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return text.substr(0, i);
    }
  }
  return text;
}

// Discarded when the text is not a value.
json parse_value(std::string_view text) {
  if (text.size() >= 2 && text.front() == '\'' && text.find('\'', 1) == text.size() - 1) {
    return json(text.substr(1, text.size() - 2));
  }
  return json::parse(text, nullptr, false);
}

void read_line(Config& config, std::string_view line, const std::string& place,
               std::set<std::string, std::less<>>& seen) {
  const auto equals = line.find('=');
  if (equals == std::string_view::npos || line.front() == '[') {
    throw UsageError(fmt::format("{}: expected a line 'key = value', got {}.{}", place,
                                 in_quotes(line),
                                 line.front() == '[' ? " Sections are not used." : ""));
  }
  const std::string key(trim(line.substr(0, equals)));
  const Field* const field = find_field(key);
  if (field == nullptr) {
    throw UsageError(fmt::format("{}: expected a known key, got {}.{}", place, in_quotes(key),
                                 did_you_mean(key, field_names())));
  }
  if (!seen.insert(key).second) {
    throw UsageError(fmt::format("{}: expected each key once, got {} again.", place, key));
  }
  const std::string_view text = trim(line.substr(equals + 1));
  const json value = parse_value(text);
  if (value.is_discarded()) {
    throw UsageError(fmt::format("{}: {}: expected {}, got {}. Strings stand in double quotes.",
                                 place, key, expectation(*field), in_quotes(text)));
  }
  set_from_json(config, *field, value, fmt::format("{}: {}", place, key));
}

}  // namespace

void read_toml_into(Config& config, std::string_view text, const std::string& source) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::set<std::string, std::less<>> seen;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const std::string_view line = trim(without_comment(text.substr(0, end)));
    if (!line.empty()) read_line(config, line, fmt::format("{}:{}", source, number), seen);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
}

Config config_from_toml(std::string_view text, const std::string& source) {
  Config config;
  read_toml_into(config, text, source);
  validate(config);
  return config;
}

std::string to_toml(const Config& config) {
  std::string text = "# Configuration of a Passel run; `passel train --config FILE` repeats it.\n";
  std::string_view group;
  for (const Field& field : config_fields()) {
    if (field.group != group) text += fmt::format("\n# {}\n", field.group);
    group = field.group;
    text += fmt::format("{} = {}  # {}\n", field.name, value_of(config, field).dump(), field.help);
  }
  return text + fmt::format("\n{}\n", kTomlEnd);
}

std::string read_config_text(const std::filesystem::path& file) {
  try {
    InputFile input(file);
    if (input.size() > kLargestFile) {
      input.fail("expected a configuration file, got more than a MiB");
    }
    std::string text(kLargestFile, '\0');
    text.resize(input.read(std::as_writable_bytes(std::span(text))));
    return text;
  } catch (const DataError& error) {
    throw UsageError(
        fmt::format("{}. A configuration is text in TOML, in a file of its own.", error.what()));
  }
}

Config load_config(const std::filesystem::path& file) {
  return config_from_toml(read_config_text(file), file.string());
}

}  // namespace passel::train
