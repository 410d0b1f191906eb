#include "safetensors_checksum.h"

#include <array>
#include <cinttypes>
#include <cstdio>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace passel::train {
namespace {

constexpr std::size_t kDigits = kNoChecksum.size();

/// Where the digits of the header's own checksum stand. Quotes inside JSON strings are escaped, so
/// this text is found nowhere else.
std::size_t find_digits(std::string_view header) {
  const std::string before = "\"" + std::string(kHeaderChecksum) + "\":\"";
  const std::size_t at = header.find(before);
  if (at == std::string_view::npos || at + before.size() + kDigits > header.size()) {
    return std::string_view::npos;
  }
  return at + before.size();
}

}  // namespace

std::string checksum(std::span<const std::byte> bytes) {
  std::array<char, kDigits + 1> text{};
  const std::uint64_t hash = XXH3_64bits(bytes.data(), bytes.size());
  std::snprintf(text.data(), text.size(), "%016" PRIx64, hash);
  return text.data();
}

std::string header_checksum(std::string header) {
  const std::size_t at = find_digits(header);
  if (at == std::string::npos) {
    return {};
  }
  header.replace(at, kDigits, kNoChecksum);
  return checksum(std::as_bytes(std::span(header)));
}

void seal_header(std::string& header) {
  const std::size_t at = find_digits(header);
  header.replace(at, kDigits, header_checksum(header));
}

}  // namespace passel::train
