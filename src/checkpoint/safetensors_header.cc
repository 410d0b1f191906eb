#include "safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "passel/train/errors.h"

namespace passel::train {
namespace {

using nlohmann::json;

constexpr std::size_t kDataAlignment = 64;
constexpr int kMaxDepth = 3;  // {"name": {"shape": []}}

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

/// Watches the parser: refuses names that occur twice in an object, and deep nesting.
class StrictParsing {
 public:
  bool operator()(int /*depth*/, json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (names_.size() == kMaxDepth) {
        throw DataError("the header is nested deeper than the format is");
      }
      names_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      names_.pop_back();
    } else if (event == Event::key && !names_.back().insert(parsed.get<std::string>()).second) {
      throw DataError("the name " + parsed.dump() + " occurs twice in the header");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;
};

json parse_strictly(std::string_view text) {
  try {
    json root = json::parse(text, StrictParsing());
    if (!root.is_object() || text.front() != '{') {
      throw DataError("the header is not a JSON object");
    }
    return root;
  } catch (const json::exception&) {
    throw DataError("the header is not valid JSON");
  }
}

std::uint64_t non_negative(const json& value, const std::string& tensor, const char* what) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    throw DataError("tensor " + quoted(tensor) + " has " + what +
                    " that is no count: " + value.dump().substr(0, 40));
  }
  return value.get<std::uint64_t>();
}

Metadata parse_metadata(const json& object) {
  Metadata metadata;
  if (!object.is_object()) {
    throw DataError("__metadata__ is not a JSON object");
  }
  for (const auto& [key, value] : object.items()) {
    if (!value.is_string()) {
      throw DataError("the metadata " + quoted(key) + " is not a text");
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

SafetensorsHeader::Entry parse_entry(const std::string& name, const json& object) {
  const bool complete = object.is_object() && object.size() == 3 && object.contains("dtype") &&
                        object.contains("shape") && object.contains("data_offsets");
  if (!complete || !object["dtype"].is_string() || !object["shape"].is_array() ||
      !object["data_offsets"].is_array() || object["data_offsets"].size() != 2) {
    throw DataError("tensor " + quoted(name) + " needs exactly dtype, shape and two data_offsets");
  }
  SafetensorsHeader::Entry entry;
  entry.name = name;
  const std::string dtype = object["dtype"].get<std::string>();
  if (const auto known = dtype_from_name(dtype)) {
    entry.dtype = *known;
  } else {
    throw DataError("tensor " + quoted(name) + " has the unknown dtype " + quoted(dtype));
  }
  for (const json& size : object["shape"]) {
    entry.shape.push_back(static_cast<std::int64_t>(non_negative(size, name, "a size")));
  }
  entry.begin = non_negative(object["data_offsets"][0], name, "an offset");
  entry.end = non_negative(object["data_offsets"][1], name, "an offset");
  return entry;
}

void check_entry(const SafetensorsHeader::Entry& entry, std::uint64_t data_bytes) {
  if (entry.begin > entry.end || entry.end > data_bytes) {
    throw DataError("tensor " + quoted(entry.name) + " lies at bytes " +
                    std::to_string(entry.begin) + " to " + std::to_string(entry.end) + " of " +
                    std::to_string(data_bytes) + "; the file is truncated or damaged");
  }
  const auto expected = tensor_bytes(entry.dtype, entry.shape);
  if (!expected) {
    throw DataError("tensor " + quoted(entry.name) + " has a shape of more than 2^63 bytes");
  }
  if (entry.end - entry.begin != *expected) {
    throw DataError("tensor " + quoted(entry.name) + " needs " + std::to_string(*expected) +
                    " bytes for its shape, but has " + std::to_string(entry.end - entry.begin));
  }
}

/// Sorts by position and checks that each tensor begins where the one before it ends.
void check_coverage(std::vector<SafetensorsHeader::Entry>& entries, std::uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t covered = 0;
  for (const auto& entry : entries) {
    if (entry.begin != covered) {
      throw DataError("tensor " + quoted(entry.name) + " begins at byte " +
                      std::to_string(entry.begin) + ", expected " + std::to_string(covered) +
                      ": tensors overlap or leave a hole");
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    throw DataError("the tensors end at byte " + std::to_string(covered) + " of " +
                    std::to_string(data_bytes) + " of data");
  }
}

}  // namespace

std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::int64_t bytes = static_cast<std::int64_t>(dtype_size(dtype));
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return std::nullopt;
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

SafetensorsHeader parse_header(std::string_view text, std::uint64_t data_bytes) {
  const json root = parse_strictly(text);
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value);
    } else {
      header.entries.push_back(parse_entry(name, value));
      check_entry(header.entries.back(), data_bytes);
    }
  }
  check_coverage(header.entries, data_bytes);
  return header;
}

std::string encode_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json root;
  root["__metadata__"] = header.metadata;
  for (const auto& entry : header.entries) {
    root[entry.name] = {{"dtype", dtype_name(entry.dtype)},
                        {"shape", entry.shape},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  try {
    std::string text = root.dump();
    const std::size_t unaligned = (kLengthBytes + text.size()) % kDataAlignment;
    text.append((kDataAlignment - unaligned) % kDataAlignment, ' ');
    return text;
  } catch (const json::exception&) {
    throw UsageError("names and metadata of tensors must be UTF-8");
  }
}

std::array<std::byte, kLengthBytes> encode_length(std::uint64_t length) {
  std::array<std::byte, kLengthBytes> bytes{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes[i] = static_cast<std::byte>(length >> (8 * i));
  }
  return bytes;
}

std::uint64_t decode_length(std::span<const std::byte, kLengthBytes> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return length;
}

}  // namespace passel::train
