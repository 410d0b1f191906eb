#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "passel/train/input_file.h"

namespace passel::train {

/// The bytes of a regular file from its start, inflated on the way where they are gzip (of one
/// member or several). Every failure is a DataError that names the file.
class ByteSource {
 public:
  explicit ByteSource(const std::filesystem::path& path);
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  /// Fills `out` as far as the content reaches; returns how much that was. A compressed stream
  /// that breaks off or fails its checksum is an error.
  std::size_t read(std::span<std::uint8_t> out);

  /// More content than this the file cannot have: its size, or what deflate's best ratio makes of
  /// it.
  std::uint64_t max_content() const noexcept;

  [[noreturn]] void fail(const std::string& cause) const { file_.fail(cause); }

 private:
  bool refill();
  std::size_t read_plain(std::span<std::uint8_t> out);
  std::size_t inflate_into(std::span<std::uint8_t> out);
  bool prepare_input();

  InputFile file_;
  std::vector<std::uint8_t> buffer_;
  std::span<std::uint8_t> pending_;  // part of buffer_ not yet consumed; unused while inflating
  bool compressed_ = false;
  bool member_open_ = true;  // inside a gzip member, so the end of the file would be too early
  z_stream stream_{};
};

}  // namespace passel::train
