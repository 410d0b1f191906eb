#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace passel::train {

/// Element types of the safetensors format.
enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kF16,
  kBF16,
  kU32,
  kI32,
  kF32,
  kU64,
  kI64,
  kF64,
};

std::size_t dtype_size(DType dtype) noexcept;
std::string_view dtype_name(DType dtype) noexcept;
std::optional<DType> dtype_from_name(std::string_view name) noexcept;

/// A named tensor whose bytes (row-major, little-endian) belong to somebody else.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::span<const std::byte> bytes;
};

using Metadata = std::map<std::string, std::string>;

/// Metadata keys that start so belong to the writer: `passel.checksum` names the kind, XXH3 of 64
/// bits, and `passel.checksum.header` and `passel.checksum.tensor.NAME` hold 16 hex digits each.
inline constexpr std::string_view kChecksumPrefix = "passel.checksum";

/// Writes a safetensors file atomically (atomic_file.h). Data starts at a multiple of 64 bytes;
/// tensors are ordered by falling element size, so each is aligned to its elements.
/// Throws UsageError for names that repeat or are not UTF-8, for bytes that do not fit the shape
/// and for reserved metadata keys; FileError where the file cannot be written.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata = {});

/// A safetensors file read into memory and verified. Immutable; any thread may read it.
class SafetensorsFile {
 public:
  /// Reads the whole file. Throws DataError, naming the file and the cause, unless the header is
  /// well-formed, the tensors cover the data without overlap or hole, and, in a file with
  /// checksums, each of them is right. Files of other writers have none and are accepted.
  static SafetensorsFile open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return path_; }

  /// In the order of their data. The views live as long as this object (moves keep them).
  const std::vector<TensorView>& tensors() const noexcept { return tensors_; }

  /// The tensor of that name, or nullptr.
  const TensorView* find(std::string_view name) const noexcept;

  /// The tensor of that name; throws DataError, which lists the names there are.
  const TensorView& at(std::string_view name) const;

  /// The file's metadata without the checksums.
  const Metadata& metadata() const noexcept { return metadata_; }

  /// True where the writer left checksums (all of which have been verified).
  bool has_checksums() const noexcept { return has_checksums_; }
  /// The writer said in the metadata that it leaves them out: passel.checksum is none.
  bool says_no_checksums() const noexcept { return says_no_checksums_; }

 private:
  struct FreeAligned {
    void operator()(std::byte* bytes) const noexcept;
  };

  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::unique_ptr<std::byte, FreeAligned> data_;  // 64-byte aligned
  std::vector<TensorView> tensors_;
  Metadata metadata_;
  bool has_checksums_ = false;
  bool says_no_checksums_ = false;
};

}  // namespace passel::train
