#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "passel/train/atomic_file.h"

namespace passel::train {

/// write_atomically() for text; throws FileError.
inline void replace_text(const std::filesystem::path& file, std::string_view text) {
  const std::span<const std::byte> part = std::as_bytes(std::span(text));
  write_atomically(file, std::span(&part, 1));
}

/// Unix time in seconds with its fraction.
double unix_time();

/// The whole file. Throws ReadError if it is missing or cannot be read, DataError if it is no
/// regular file.
std::string read_whole(const std::filesystem::path& file);

/// The same; empty if there is none. Throws ReadError if it cannot be read.
std::string read_text(const std::filesystem::path& file);

}  // namespace passel::train
