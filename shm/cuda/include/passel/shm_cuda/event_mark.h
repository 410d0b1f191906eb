#pragma once

#include <cstdint>

namespace passel::shm {

/// A moment in a stream of some process: one recording of one event of the pool. As a plain word
/// it travels in handles and lies in shared memory; 0 is no moment at all.
struct EventMark {
  static constexpr int kSequenceBits = 44;
  static constexpr std::uint32_t kMaxEvents = 1U << (64 - kSequenceBits);

  std::uint64_t word = 0;

  static EventMark make(std::uint32_t event, std::uint64_t sequence) noexcept {
    return {std::uint64_t{event} << kSequenceBits | sequence};
  }
  [[nodiscard]] bool none() const noexcept { return word == 0; }
  [[nodiscard]] std::uint32_t event() const noexcept {
    return static_cast<std::uint32_t>(word >> kSequenceBits);
  }
  /// From 1: the how-manieth recording of the event.
  [[nodiscard]] std::uint64_t sequence() const noexcept {
    return word & ((std::uint64_t{1} << kSequenceBits) - 1);
  }

  bool operator==(const EventMark&) const = default;
};

}  // namespace passel::shm
