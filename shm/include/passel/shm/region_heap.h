#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "passel/shm/chunk_table.h"

namespace passel::shm {

/// The allocator of one process's region. Its books are private memory, so a SIGKILL cannot leave
/// them in between; a successor of the process makes its own from the records: what somebody holds
/// is in use, all else is free.
///
/// Freed chunks are kept by size and handed out again as they are, the last one first: a program
/// that sends equal tensors allocates in constant time and stays in the cache. Only when nothing
/// fits are the kept ones merged into ranges again.
///
/// Threads: one at a time.
class RegionHeap {
 public:
  /// Chunks start on borders of this many bytes.
  static constexpr std::uint64_t kAlign = 128;

  RegionHeap(const Arena& arena, const ChunkTable& table, std::uint32_t process);

  /// A chunk of at least `bytes`, its memory taken and its record written. Empty when there is
  /// none; then failure() says whether the system, not the region, was the reason.
  std::optional<std::uint32_t> allocate(std::uint64_t bytes);
  /// `id` must be allocated and held by nobody. Handles to it become stale.
  void free(std::uint32_t id);

  /// The errno with which the system refused memory to the last allocate(), or 0.
  [[nodiscard]] int failure() const noexcept { return failure_; }
  [[nodiscard]] std::uint64_t bytes_in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::uint32_t chunks_in_use() const noexcept { return chunks_in_use_; }

 private:
  void recover();
  std::optional<std::uint32_t> take_kept(std::uint64_t bytes);
  std::optional<std::uint32_t> carve(std::uint64_t bytes);
  bool take_memory(std::uint64_t end);
  void merge_kept();
  void add_range(std::uint64_t offset, std::uint64_t bytes);

  const Arena& arena_;
  ChunkTable table_;
  std::uint32_t first_;  ///< id of the region's first chunk
  Block region_;
  std::uint64_t taken_;  ///< arena offset below which the region's pages are taken
  std::map<std::uint64_t, std::uint64_t> ranges_;  ///< offset to bytes: free, never adjacent
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> kept_;  ///< bytes to free chunks
  std::vector<std::uint32_t> unused_;                                   ///< ids without memory
  std::uint64_t in_use_ = 0;
  std::uint32_t chunks_in_use_ = 0;
  int failure_ = 0;
};

}  // namespace passel::shm
