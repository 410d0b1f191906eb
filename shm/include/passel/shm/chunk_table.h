#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "passel/shm/arena.h"
#include "passel/shm/doorbell.h"

namespace passel::shm {

struct ChunkOptions {
  std::uint32_t processes = 2;       ///< the parent, which is process 0, and its workers
  std::uint32_t chunks = 4096;       ///< per process: how many buffers it can have out at once
  std::uint64_t region_bytes = 0;    ///< per process, rounded up to whole pages
  std::string_view name = "passel";  ///< tells several tables of an arena apart
  /// The regions lie in memory of another kind, one after the other from `first_offset` on, and
  /// offsets count from its start; only records and inboxes are in the arena.
  bool elsewhere = false;
  std::uint64_t first_offset = 0;
};

/// The shared half of one buffer of a region.
///
/// Kill-safe because no step has a middle: the owner writes offset and bytes before the first
/// handle to them is published; a holder sets and clears its own bit with one instruction.
struct alignas(64) ChunkRecord {
  static constexpr std::uint32_t kMaxProcesses = 256;

  std::array<std::atomic<std::uint64_t>, kMaxProcesses / 64> holders{};  ///< bit p: process p
  std::uint64_t offset = 0;  ///< bytes from the start of the memory that the regions lie in
  std::uint64_t bytes = 0;
  std::atomic<std::uint32_t> generation{1};  ///< by the owner: grows each time it becomes free

  [[nodiscard]] bool held() const noexcept;
  void hold(std::uint32_t process) noexcept;
  /// False when it was not held.
  bool let_go(std::uint32_t process) noexcept;
};

/// The regions from which each process lends buffers to the others: one region per process, which
/// it alone allocates from, so no allocator is shared; and the inbox of each process, the one
/// doorbell that it sleeps on.
///
/// A cheap handle, valid while the arena is. Any thread of any process.
class ChunkTable {
 public:
  /// Set-up, in the parent. Takes memory for the records only; regions take theirs when used.
  /// @throws Error
  static ChunkTable create(Arena& arena, const ChunkOptions& options);
  /// @throws Error when the arena has none of this name
  static ChunkTable open(const Arena& arena, std::string_view name = "passel");

  [[nodiscard]] std::uint32_t processes() const noexcept { return processes_; }
  [[nodiscard]] std::uint32_t chunks_per_region() const noexcept { return chunks_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return processes_ * chunks_; }
  /// The process whose region chunk `id` lies in.
  [[nodiscard]] std::uint32_t owner(std::uint32_t id) const noexcept { return id / chunks_; }

  [[nodiscard]] ChunkRecord& operator[](std::uint32_t id) const noexcept { return records_[id]; }
  [[nodiscard]] Block region(std::uint32_t process) const noexcept {
    return {regions_.offset + process * region_bytes_, region_bytes_};
  }
  /// Whether the regions are no memory of the arena.
  [[nodiscard]] bool elsewhere() const noexcept { return elsewhere_; }
  [[nodiscard]] std::span<Doorbell> inboxes() const noexcept { return inboxes_; }

 private:
  ChunkTable() = default;

  std::uint32_t processes_ = 0;
  std::uint32_t chunks_ = 0;
  std::uint64_t region_bytes_ = 0;
  Block regions_{};
  bool elsewhere_ = false;
  std::span<ChunkRecord> records_;
  std::span<Doorbell> inboxes_;
};

}  // namespace passel::shm
