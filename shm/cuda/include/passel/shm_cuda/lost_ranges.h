#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace passel::shm {

/// Which recordings of an event were cut off by the deaths of those who recorded it, as ranges of
/// their counts. It lies in shared memory: one process adds, all others look at any time.
///
/// The last kExact ranges are kept as they are. What is older becomes one range from the first to
/// the last of them, so nothing that was lost is ever taken for done; what was done between two
/// deaths that long ago counts as lost, too.
class LostRanges {
 public:
  static constexpr std::size_t kExact = 7;

  /// Those after `kept`, up to and including `last`; later ones than all that were added before.
  void add(std::uint64_t kept, std::uint64_t last) noexcept {
    Range& range = recent_[added_++ % kExact];
    // Relaxed loads: this process alone writes.
    const std::uint64_t former = range.last.load(std::memory_order_relaxed);
    if (former != 0) {
      if (old_.last.load(std::memory_order_relaxed) == 0) {
        old_.kept.store(range.kept.load(std::memory_order_relaxed), std::memory_order_relaxed);
      }
      old_.last.store(former, std::memory_order_release);  // pairs with the acquire in holds()
    }
    // Release pairs with the acquire in holds(): who no longer finds the former range here finds it
    // among the old ones.
    range.kept.store(kept, std::memory_order_release);
    range.last.store(last, std::memory_order_release);  // who finds it finds `kept`
  }

  [[nodiscard]] bool contains(std::uint64_t count) const noexcept {
    for (const Range& range : recent_) {
      if (range.holds(count)) return true;
    }
    return old_.holds(count);  // last: see add()
  }

 private:
  struct Range {
    std::atomic<std::uint64_t> kept{0};
    std::atomic<std::uint64_t> last{0};  ///< 0: there is no range

    [[nodiscard]] bool holds(std::uint64_t count) const noexcept {
      // Acquire pairs with the releases in add().
      return count <= last.load(std::memory_order_acquire) &&
             count > kept.load(std::memory_order_acquire);
    }
  };

  std::array<Range, kExact> recent_;  // a ring
  Range old_;
  std::uint64_t added_ = 0;  // the writer's
};

}  // namespace passel::shm
