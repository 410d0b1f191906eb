#include "passel/train/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "byte_source.h"
#include "passel/train/dataset.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr int kMaxRank = 3;
constexpr std::uint64_t kMaxElements = std::uint64_t{1} << 33;

std::string hex_bytes(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    std::array<char, 4> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x ", byte);
    text += digits.data();
  }
  return text.empty() ? "nothing" : text.substr(0, text.size() - 1);
}

void check_magic(const ByteSource& source, std::span<const std::uint8_t> magic, int rank) {
  if (magic.size() < 4 || magic[0] != 0 || magic[1] != 0 || magic[2] != kUnsignedByte) {
    source.fail("not an IDX file of unsigned bytes: expected the first bytes 00 00 08 0" +
                std::to_string(rank) + ", found " + hex_bytes(magic));
  }
  if (magic[3] != rank) {
    source.fail("expected an IDX array of rank " + std::to_string(rank) + ", found rank " +
                std::to_string(magic[3]) + " (were images and labels exchanged?)");
  }
}

std::int64_t big_endian(std::span<const std::uint8_t, 4> bytes) {
  return std::int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

std::string times(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) {
    text += (text.empty() ? "" : " x ") + std::to_string(size);
  }
  return text;
}

void check_sizes(const ByteSource& source, const std::vector<std::int64_t>& sizes) {
  const std::uint64_t most = std::min(kMaxElements, source.max_content());
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) {
    if (size == 0) {
      source.fail("the header says " + times(sizes) + " elements; each size must be at least 1");
    }
    // elements <= 2^33 and size < 2^32: the product fits only after the division says so.
    if (elements > most / static_cast<std::uint64_t>(size)) {
      source.fail("the header says " + times(sizes) + " elements, but the file can hold at most " +
                  std::to_string(most) + ": it is truncated, or its header is damaged");
    }
    elements *= static_cast<std::uint64_t>(size);
  }
}

}  // namespace

IdxFile::IdxFile(std::filesystem::path path, std::vector<std::int64_t> sizes)
    : path_(std::move(path)), sizes_(std::move(sizes)) {}

std::size_t IdxFile::elements() const noexcept {
  std::size_t count = 1;
  for (const std::int64_t size : sizes_) {
    count *= static_cast<std::size_t>(size);
  }
  return count;
}

IdxFile IdxFile::open(std::filesystem::path path, int rank) {
  ByteSource source(path);
  std::array<std::uint8_t, 4 + 4 * kMaxRank> header{};
  const std::size_t wanted = 4 + 4 * static_cast<std::size_t>(rank);
  const std::size_t got = source.read(std::span(header).first(wanted));
  check_magic(source, std::span(header).first(std::min<std::size_t>(got, 4)), rank);
  if (got < wanted) {
    source.fail("expected an IDX header of " + std::to_string(wanted) +
                " bytes, but the file ends after " + std::to_string(got));
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t at = 4; at < wanted; at += 4) {
    sizes.push_back(big_endian(std::span(header).subspan(at).first<4>()));
  }
  check_sizes(source, sizes);
  return {std::move(path), std::move(sizes)};
}

std::vector<std::uint8_t> IdxFile::read() const {
  ByteSource source(path_);
  std::array<std::uint8_t, 4 + 4 * kMaxRank> header{};
  source.read(std::span(header).first(header_bytes()));
  std::vector<std::uint8_t> content(elements());
  const std::size_t got = source.read(content);
  if (got < content.size()) {
    source.fail("the header says " + times(sizes_) + " = " + std::to_string(content.size()) +
                " elements, but there are only " + std::to_string(got) +
                "; the file is truncated: fetch it again");
  }
  std::uint8_t extra = 0;  // reading on also makes zlib check the stream's checksum
  if (source.read({&extra, 1}) != 0) {
    source.fail("there are more bytes than the " + times(sizes_) + " the header says");
  }
  return content;
}

std::filesystem::path find_idx_file(const std::filesystem::path& directory, std::string_view name) {
  std::error_code error;
  const auto kind = std::filesystem::status(directory, error).type();
  if (kind != std::filesystem::file_type::directory &&
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none) {
    throw DataError(directory.string() +
                    " is not a folder; --data expects the folder that holds the IDX files");
  }
  const std::filesystem::path plain = directory / name;
  const std::filesystem::path compressed = plain.string() + ".gz";
  for (const std::filesystem::path& candidate : {plain, compressed}) {
    if (std::filesystem::exists(candidate, error)) {
      return candidate;
    }
  }
  throw DataError("neither " + plain.string() + " nor " + compressed.filename().string() +
                  " beside it was found" + (error ? " (" + error.message() + ")" : "") +
                  ". Install the Debian package dataset-fashion-mnist (it fills " +
                  kFashionMnistDirectory + "), or name the folder with --data DIR.");
}

}  // namespace passel::train
