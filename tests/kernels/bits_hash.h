#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace passel::kernels::test {

/// FNV-1a, 64 bits, of the values' bytes (little endian on all machines that are
/// supported).
class Hash {
 public:
  template <typename T>
  void add(std::span<const T> values) {
    for (const std::byte byte : std::as_bytes(values)) {
      value_ = (value_ ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace passel::kernels::test
