#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "passel/train/safetensors.h"

namespace passel::train {

inline constexpr std::string_view kChecksumKind = "xxh3-64";
/// What a program says that writes none, such as Python's safetensors.
inline constexpr std::string_view kNoChecksums = "none";
inline constexpr std::string_view kHeaderChecksum = "passel.checksum.header";
inline constexpr std::string_view kTensorChecksum = "passel.checksum.tensor.";
inline constexpr std::string_view kNoChecksum = "0000000000000000";

/// XXH3 of 64 bits as 16 hex digits.
std::string checksum(std::span<const std::byte> bytes);

/// The checksum of a header's JSON, padding included, in which its own checksum counts as zeros.
/// Empty where the header does not hold one in the form that the writer gives it.
std::string header_checksum(std::string header);

/// Writes the header's own checksum over the zeros that stand for it.
void seal_header(std::string& header);

}  // namespace passel::train
