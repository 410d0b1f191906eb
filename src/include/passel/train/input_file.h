#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace passel::train {

/// A regular file read from its start. Every failure is a DataError that names the file.
class InputFile {
 public:
  /// Throws ReadError where the file is missing or cannot be read, DataError where it is not a
  /// regular file.
  explicit InputFile(const std::filesystem::path& path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Bytes at the time of opening.
  std::uint64_t size() const noexcept { return size_; }

  /// Fills `out` as far as the file reaches; returns how much that was. Throws ReadError.
  std::size_t read(std::span<std::byte> out);

  /// Throws DataError("PATH: cause").
  [[noreturn]] void fail(const std::string& cause) const;
  /// The same for ReadError.
  [[noreturn]] void fail_to_read(const std::string& cause) const;

 private:
  [[noreturn]] void fail_as(std::string_view kind) const;

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace passel::train
