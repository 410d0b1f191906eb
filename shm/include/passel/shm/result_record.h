#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <typeinfo>

namespace passel::shm {

inline constexpr std::size_t kResultBytes = 1024;

/// What an entry may return: bytes that mean the same in the parent.
template <class R>
inline constexpr bool kIsResult =
    std::is_trivially_copyable_v<R> && !std::is_pointer_v<R> && sizeof(R) <= kResultBytes;
template <>
inline constexpr bool kIsResult<void> = false;

/// What a worker's entry returned: in the arena, one per slot, written by that worker alone.
/// Value-initialised = nothing yet.
struct alignas(128) ResultRecord {
  static constexpr const char* kName = "passel.results";

  std::atomic<std::uint32_t> valid;  ///< released last by the worker, acquired by read_result()
  std::uint32_t bytes;
  std::uint64_t type;
  std::array<std::byte, kResultBytes> data;
};

/// Forgets the value. The parent calls it before a spawn.
void clear(ResultRecord& record) noexcept;

void write_result(ResultRecord& record, std::span<const std::byte> value,
                  std::uint64_t type) noexcept;

/// Fills `value`; false when there is no result.
/// @throws Error when the result is of another type
bool read_result(const ResultRecord& record, std::span<std::byte> value, std::uint64_t type);

/// The same in every process that runs one executable.
template <class R>
std::uint64_t result_type() noexcept {
  return typeid(R).hash_code();
}

template <class R>
void write_result(ResultRecord& record, const R& value) noexcept {
  static_assert(kIsResult<R>);
  write_result(record, std::as_bytes(std::span(&value, 1)), result_type<R>());
}

template <class R>
std::optional<R> read_result(const ResultRecord& record) {
  static_assert(kIsResult<R>);
  std::array<std::byte, sizeof(R)> bytes;
  if (!read_result(record, bytes, result_type<R>())) return std::nullopt;
  return std::bit_cast<R>(bytes);
}

}  // namespace passel::shm
