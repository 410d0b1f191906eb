#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "passel/shm/chunk_table.h"
#include "passel/shm/region_heap.h"

namespace passel::shm {

/// A buffer of a region as it travels: a handle of another generation is stale.
struct ChunkHandle {
  std::uint32_t id;
  std::uint32_t generation;

  bool operator==(const ChunkHandle&) const = default;
};

/// What one process has of the chunks: its own region's allocator, its references to chunks of any
/// region, and what it sent that no receiver has taken yet.
///
/// The rule that keeps a chunk alive without a count that a SIGKILL could falsify: whoever sends a
/// chunk keeps it until the receiver's ring shows the entry gone; before that, the receiver has
/// set its own bit in the chunk's record. The owner reuses a chunk once it has no reference and no
/// entry under way itself and no bit is set. The books here are private; a death loses them, and
/// the parent puts them right with adopt() and forget().
///
/// Threads: any; a private mutex guards all.
class ChunkLedger {
 public:
  enum class Status : std::uint8_t {
    kOk,
    kLent,      ///< no room now; others hold chunks of this region, so waiting may help
    kOwn,       ///< no room, and all that is in use is held by this process itself
    kTooLarge,  ///< more than the region has
    kSystem,    ///< the system has no memory left
  };
  struct Allocation {
    Status status;
    ChunkHandle chunk;
    /// [bytes asked for, rounded up], aligned to RegionHeap::kAlign; nullptr where the regions are
    /// no memory of the arena.
    std::byte* data;
  };

  /// @param process whose books these are: 0 is the parent, 1 + slot a worker
  ChunkLedger(const Arena& arena, const ChunkTable& table, std::uint32_t process);

  ChunkLedger(const ChunkLedger&) = delete;
  ChunkLedger& operator=(const ChunkLedger&) = delete;

  /// A chunk of this process's region with one reference.
  Allocation allocate(std::uint64_t bytes);

  /// Adds a reference to a chunk that this process has one to.
  void retain(std::uint32_t id) noexcept;
  /// Drops a reference; the last one lets the chunk go.
  void release(std::uint32_t id) noexcept;

  /// Takes a reference to a chunk that a message brought. Call it while the message is still in
  /// its ring. False, and nothing taken, when the handle is stale or never was one.
  bool claim(ChunkHandle handle) noexcept;

  /// Something through which this process sends: `popped`, which identifies it, counts what the
  /// receiver took.
  std::uint32_t add_lane(const std::atomic<std::uint64_t>& popped);
  /// The entry `ticket` of a lane carries this chunk; the caller still has a reference.
  void sent(std::uint32_t lane, std::uint64_t ticket, std::uint32_t id);

  /// For the parent, when the sender of an undelivered entry is dead: answers for it in the place
  /// of the dead. False when the handle is no valid one.
  bool adopt(std::uint32_t lane, std::uint64_t ticket, ChunkHandle handle);
  /// For the parent, once `process` is provably dead and its entries are adopted: drops all that
  /// it held.
  void forget(std::uint32_t process) noexcept;

  /// Takes note of what receivers took and let go; allocate() does it by itself.
  /// @return whether something sent is still to be taken
  bool collect();

  /// Bytes of this region that are in use, by this process or by others.
  [[nodiscard]] std::uint64_t bytes_in_use() const;
  /// Chunks of this region that are in use likewise.
  [[nodiscard]] std::uint32_t chunks_in_use() const;
  [[nodiscard]] std::uint32_t process() const noexcept { return process_; }
  [[nodiscard]] const ChunkTable& table() const noexcept { return table_; }

 private:
  struct Local {
    std::uint32_t references = 0;
    std::uint32_t under_way = 0;  ///< entries sent and not yet taken
    bool lent = false;            ///< listed in lent_
  };
  struct Lane {
    const std::atomic<std::uint64_t>* popped;
    std::deque<std::pair<std::uint64_t, std::uint32_t>> entries;  ///< ticket, chunk
  };

  [[nodiscard]] bool own(std::uint32_t id) const noexcept { return table_.owner(id) == process_; }
  [[nodiscard]] Status status_of_failure() const noexcept;
  void settle(std::uint32_t id) noexcept;
  void retire(Lane& lane);
  void retire_next();
  void sweep_lent(std::size_t count);

  const Arena& arena_;
  const ChunkTable table_;
  const std::uint32_t process_;

  mutable std::mutex mutex_;  // guards what follows
  RegionHeap heap_;
  std::vector<Local> locals_;  // [chunks]
  std::vector<Lane> lanes_;
  std::size_t next_lane_ = 0;
  std::deque<std::uint32_t> lent_;  // own chunks that only others hold
};

}  // namespace passel::shm
