// Reading, writing and checking one member of Config.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "passel/train/config_fields.h"
#include "passel/train/errors.h"
#include "passel/train/wording.h"

namespace passel::train {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return value.is_string()       ? in_quotes(value.get_ref<const std::string&>())
         : value.is_structured() ? std::string(value.type_name())
                                 : value.dump();
}

[[noreturn]] void refuse(const Field& field, const std::string& label, const std::string& got) {
  std::string text = fmt::format("{}: expected {}, got {}.", label, expectation(field), got);
  if (!field.hint.empty()) text += fmt::format(" {}", field.hint);
  throw UsageError(text);
}

bool within(const Range& range, double value) {
  return std::isfinite(value) && (range.open_low ? value > range.low : value >= range.low) &&
         (range.open_high ? value < range.high : value <= range.high);
}

// A path may be any bytes, config.toml and manifest.json hold UTF-8 only.
bool is_portable_text(const std::string& text) {
  if (text.find('\0') != std::string::npos) return false;
  try {
    static_cast<void>(json(text).dump());
  } catch (const json::type_error&) {
    return false;
  }
  return true;
}

void check_member(const Field& field, const std::string& value, const std::string& label) {
  for (const std::string_view choice : field.choices) {
    if (choice == value) return;
  }
  if (field.accepts != nullptr && field.accepts(value)) return;
  // Of more forms than names, the nearest name is a guess: gpu is nearer to cpu than to cuda.
  std::vector<std::string> names;
  if (field.form.empty()) names.assign(field.choices.begin(), field.choices.end());
  throw UsageError(fmt::format("{}: expected {}, got {}.{}", label, expectation(field),
                               in_quotes(value), did_you_mean(value, names)));
}
void check_member(const Field& field, const std::filesystem::path& value,
                  const std::string& label) {
  if (!is_portable_text(value.string())) refuse(field, label, in_quotes(value.string()));
}
void check_member(const Field& field, std::int64_t value, const std::string& label) {
  if (!within(field.range, static_cast<double>(value))) refuse(field, label, std::to_string(value));
}
void check_member(const Field& field, double value, const std::string& label) {
  if (!within(field.range, value)) refuse(field, label, fmt::format("{}", value));
}
void check_member(const Field&, std::uint64_t, const std::string&) {}
void check_member(const Field&, bool, const std::string&) {}

bool read_text(const std::string& text, std::string& value) {
  value = text;
  return true;
}
bool read_text(const std::string& text, std::filesystem::path& value) {
  value = text;
  return !text.empty();
}
bool read_text(const std::string& text, bool& value) {
  value = text == "true";
  return value || text == "false";
}
template <typename Number>
bool read_text(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

bool read_json(const json& source, std::string& value) {
  if (!source.is_string()) return false;
  value = source.get<std::string>();
  return true;
}
bool read_json(const json& source, std::filesystem::path& value) {
  if (!source.is_string()) return false;
  value = source.get<std::string>();
  return true;
}
bool read_json(const json& source, bool& value) {
  if (!source.is_boolean()) return false;
  value = source.get<bool>();
  return true;
}
bool read_json(const json& source, double& value) {
  if (!source.is_number()) return false;
  value = source.get<double>();
  return true;
}
bool read_json(const json& source, std::int64_t& value) {
  if (!source.is_number_integer()) return false;
  // Above the largest signed number get() would wrap around.
  if (source.is_number_unsigned() && source.get<std::uint64_t>() > INT64_MAX) return false;
  value = source.get<std::int64_t>();
  return true;
}
bool read_json(const json& source, std::uint64_t& value) {
  if (!source.is_number_integer()) return false;
  if (!source.is_number_unsigned() && source.get<std::int64_t>() < 0) return false;
  value = source.get<std::uint64_t>();
  return true;
}

std::string number_range(const Range& range) {
  return fmt::format("{} {} {} {}", range.open_low ? "greater than" : "from", range.low,
                     range.open_high ? "to less than" : (range.open_low ? "and at most" : "to"),
                     range.high);
}

}  // namespace

std::string expectation(const Field& field) {
  struct Visitor {
    const Field& field;
    std::string operator()(std::string Config::*) const {
      if (!field.form.empty()) return std::string(field.form);
      return (field.choices.size() == 1 ? "" : "one of ") +
             fmt::format("{}", fmt::join(field.choices, ", "));
    }
    std::string operator()(std::filesystem::path Config::*) const { return "a path in UTF-8"; }
    std::string operator()(std::int64_t Config::*) const {
      return fmt::format("a whole number from {:.0f} to {:.0f}", field.range.low, field.range.high);
    }
    std::string operator()(std::uint64_t Config::*) const {
      return "a whole number from 0 to 18446744073709551615";
    }
    std::string operator()(double Config::*) const {
      return "a number " + number_range(field.range);
    }
    std::string operator()(bool Config::*) const { return "true or false"; }
  };
  return std::visit(Visitor{field}, field.member);
}

void check_field(const Config& config, const Field& field, const std::string& label) {
  std::visit([&](auto member) { check_member(field, config.*member, label); }, field.member);
}

void set_from_text(Config& config, const Field& field, const std::string& text,
                   const std::string& label) {
  const bool read =
      std::visit([&](auto member) { return read_text(text, config.*member); }, field.member);
  if (!read) refuse(field, label, in_quotes(text));
  check_field(config, field, label);
}

void set_from_json(Config& config, const Field& field, const json& value,
                   const std::string& label) {
  const bool read =
      std::visit([&](auto member) { return read_json(value, config.*member); }, field.member);
  if (!read) refuse(field, label, shown(value));
  check_field(config, field, label);
}

json value_of(const Config& config, const Field& field) {
  return std::visit(
      [&](auto member) -> json {
        if constexpr (std::is_same_v<decltype(member), std::filesystem::path Config::*>) {
          return (config.*member).string();
        } else {
          return config.*member;
        }
      },
      field.member);
}

}  // namespace passel::train
