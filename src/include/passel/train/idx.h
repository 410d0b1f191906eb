#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace passel::train {

/// A file of unsigned bytes in the IDX format of the MNIST family: a big-endian header
/// {0, 0, 0x08, rank} and `rank` sizes of 32 bits, then the bytes, row-major. Plain or gzip.
/// Opening reads and checks the header only; nothing is allocated from its figures until they are
/// known to fit what the file can hold.
class IdxFile {
 public:
  /// Throws DataError, naming the file, what was expected and what came.
  static IdxFile open(std::filesystem::path path, int rank);

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }

  /// All elements. Throws DataError where the file ends early, goes on after the last element, or
  /// fails gzip's checksum.
  std::vector<std::uint8_t> read() const;

 private:
  IdxFile(std::filesystem::path path, std::vector<std::int64_t> sizes);
  std::size_t header_bytes() const noexcept { return 4 + 4 * sizes_.size(); }
  std::size_t elements() const noexcept;

  std::filesystem::path path_;
  std::vector<std::int64_t> sizes_;
};

/// `name` or `name`.gz in `directory`, the plain file first. Throws DataError where neither exists.
std::filesystem::path find_idx_file(const std::filesystem::path& directory, std::string_view name);

}  // namespace passel::train
