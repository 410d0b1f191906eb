#pragma once

#include <cstddef>
#include <span>

namespace passel::shm {

/// A range of the arena, page-locked for the devices of this process, so that copies from and to
/// it are asynchronous. Pinning counts per process: each one pins what it copies, once.
///
/// Threads: any, but not while it is destroyed.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  /// @param range in pages of its own; its memory must be taken (Arena::add, Arena::populate).
  ///   It must outlive the object.
  /// @throws CudaError naming the bytes, when the limit of locked memory (ulimit -l) is too low
  explicit PinnedMemory(std::span<std::byte> range);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  /// Unpins. No copy from or to it may be under way.
  ~PinnedMemory();

  /// Unpins now.
  void reset() noexcept;
  [[nodiscard]] std::span<std::byte> range() const noexcept { return range_; }

 private:
  std::span<std::byte> range_;
};

}  // namespace passel::shm
