#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "run/temp_dir.h"

namespace passel::testing {

/// What an event says, read by a reader that shares no code with the writer.
struct ReadEvent {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;
  bool session_start = false;
  std::map<std::string, float> points;
};

/// CRC-32C by its definition, bit by bit.
inline std::uint32_t slow_crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~crc;
}

/// Cuts pieces off the front of some bytes; throws std::runtime_error at their end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}
  bool done() const { return bytes_.empty(); }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) throw std::runtime_error("the bytes end too early");
    const std::string_view piece = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return piece;
  }
  template <typename Number>
  Number number() {
    Number number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

 private:
  std::string_view bytes_;
};

struct Field {
  std::uint64_t varint = 0;
  std::string_view bytes;  ///< of fixed-size numbers and of what has a length
};

/// The fields of a protobuf message by their numbers, repeated ones in order.
inline std::multimap<std::uint64_t, Field> fields_of(std::string_view message) {
  std::multimap<std::uint64_t, Field> fields;
  for (ByteReader in(message); !in.done();) {
    const std::uint64_t key = in.varint();
    Field field;
    switch (key % 8) {
      case 0:
        field.varint = in.varint();
        break;
      case 1:
        field.bytes = in.take(8);
        break;
      case 2:
        field.bytes = in.take(in.varint());
        break;
      case 5:
        field.bytes = in.take(4);
        break;
      default:
        throw std::runtime_error("unknown wire type");
    }
    fields.emplace(key / 8, field);
  }
  return fields;
}

inline ReadEvent parse_event(std::string_view message) {
  ReadEvent event;
  for (const auto& [number, field] : fields_of(message)) {
    if (number == 1) event.wall_time = ByteReader(field.bytes).number<double>();
    if (number == 2) event.step = static_cast<std::int64_t>(field.varint);
    if (number == 3) event.file_version = field.bytes;
    if (number == 7) event.session_start = fields_of(field.bytes).find(1)->second.varint == 1;
    if (number != 5) continue;
    for (const auto& [one, value] : fields_of(field.bytes)) {
      const auto parts = fields_of(value.bytes);
      event.points[std::string(parts.find(1)->second.bytes)] =
          ByteReader(parts.find(2)->second.bytes).number<float>();
    }
  }
  return event;
}

/// The data of each record; throws std::runtime_error at a wrong checksum or a torn record.
inline std::vector<std::string> records_of(std::string_view bytes) {
  const auto masked = [](std::string_view data) {
    const std::uint32_t crc = slow_crc32c(data);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
  };
  std::vector<std::string> records;
  for (ByteReader in(bytes); !in.done();) {
    const std::string_view length = in.take(8);
    if (in.number<std::uint32_t>() != masked(length)) throw std::runtime_error("length damaged");
    const std::string_view data = in.take(ByteReader(length).number<std::uint64_t>());
    if (in.number<std::uint32_t>() != masked(data)) throw std::runtime_error("data damaged");
    records.emplace_back(data);
  }
  return records;
}

inline std::vector<ReadEvent> read_events(const std::filesystem::path& file) {
  std::vector<ReadEvent> events;
  for (const std::string& record : records_of(train::test::read_file(file)))
    events.push_back(parse_event(record));
  return events;
}

}  // namespace passel::testing
