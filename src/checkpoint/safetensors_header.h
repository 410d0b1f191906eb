#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passel/train/safetensors.h"

namespace passel::train {

/// The JSON part of a safetensors file.
struct SafetensorsHeader {
  struct Entry {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0;  // of its bytes in the data
    std::uint64_t end = 0;
  };

  std::vector<Entry> entries;  // in the order of their data
  Metadata metadata;
};

inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as the format's own reader

/// Bytes of a tensor of that type and shape; nothing where a size is negative or they overflow.
std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

/// Throws DataError with the cause (the caller adds the file) unless `json` is a header whose
/// tensors cover `data_bytes` bytes exactly.
SafetensorsHeader parse_header(std::string_view json, std::uint64_t data_bytes);

/// The JSON, padded with spaces so that the data after it starts at a multiple of 64. Throws
/// UsageError where a text is not UTF-8.
std::string encode_header(const SafetensorsHeader& header);

std::array<std::byte, kLengthBytes> encode_length(std::uint64_t length);
std::uint64_t decode_length(std::span<const std::byte, kLengthBytes> bytes);

}  // namespace passel::train
