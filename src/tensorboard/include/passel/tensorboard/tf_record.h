#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace passel::tensorboard {

/// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

/// One record of a TFRecord file, all numbers little-endian:
/// length [8 bytes], masked CRC of the length [4], data [length], masked CRC of the data [4].
std::string tf_record(std::string_view data);

}  // namespace passel::tensorboard
