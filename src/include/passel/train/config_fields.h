#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "passel/train/config.h"

namespace passel::train {

/// Bounds of a number; an open bound is not itself allowed.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;
  bool open_high = false;
};

/// One member of Config: the single definition behind its command line option,
/// its key in TOML and JSON, its check and its help text.
struct Field {
  using Member =
      std::variant<std::string Config::*, std::filesystem::path Config::*, std::int64_t Config::*,
                   std::uint64_t Config::*, double Config::*, bool Config::*>;

  std::string_view name;   ///< hidden_size
  std::string_view group;  ///< data, model, optimisation, processes, output
  std::string_view value;  ///< what the help text calls the value: N, SECONDS, DIR
  std::string_view help;
  Member member;
  Range range = {};                               ///< of numbers
  std::vector<std::string_view> choices = {};     ///< of strings
  std::string_view form = {};                     ///< of strings that may also be others, in words
  bool (*accepts)(const std::string&) = nullptr;  ///< those others
  std::string_view hint = {};                     ///< a sentence for the error text
};

/// All members of Config in the order of their declaration.
std::span<const Field> config_fields();

/// Null for an unknown name.
const Field* find_field(std::string_view name);

/// The names of all fields.
std::vector<std::string> field_names();

/// --hidden-size for hidden_size.
std::string option_name(const Field& field);

/// What the field takes: "a whole number from 1 to 1024".
std::string expectation(const Field& field);

/// Set and check one member. Throw UsageError "LABEL: expected ..., got ...".
void set_from_text(Config& config, const Field& field, const std::string& text,
                   const std::string& label);
void set_from_json(Config& config, const Field& field, const nlohmann::json& value,
                   const std::string& label);
nlohmann::json value_of(const Config& config, const Field& field);

/// Throws UsageError if the member is out of its range.
void check_field(const Config& config, const Field& field, const std::string& label);

/// Applies the lines of a configuration file one by one. Relations between
/// members are left to validate().
void read_toml_into(Config& config, std::string_view text, const std::string& source);

/// The text of a configuration file; throws UsageError if it cannot be read.
std::string read_config_text(const std::filesystem::path& file);

}  // namespace passel::train
