#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace passel::shm {

/// The right of one worker's life to one buffer for one use. Travels through queues in both
/// directions; trivially copyable, 16 bytes.
struct Lease {
  std::uint32_t buffer;
  std::uint32_t generation;   ///< of the buffer: grows each time it becomes free
  std::uint32_t slot;         ///< of the worker
  std::uint32_t incarnation;  ///< of the slot: grows with each spawn

  bool operator==(const Lease&) const = default;
};

/// Who owns which of `count` equal buffers. The ledger is private memory of the parent, so no death
/// of a worker can leave it in between: a lease is written here before its grant is published, and
/// leases of the dead are found here, not in shared memory.
///
/// Threads: one, the one that grants, accepts and polls the supervisor.
class BufferPool {
 public:
  explicit BufferPool(std::uint32_t count);

  /// Takes the buffer that was freed last (its lines are the likeliest to be cached) for a worker.
  /// Empty when none is free. Publish the grant after this, never before.
  std::optional<Lease> lease(std::uint32_t slot, std::uint32_t incarnation);

  /// A worker returned `lease`: the buffer is now the parent's. True exactly once per lease; a
  /// stale, doubled or invented one is counted and changes nothing.
  bool accept(const Lease& lease) noexcept;

  /// Frees a buffer that was accepted. False, counted as stale, when the parent does not hold it
  /// in this generation.
  bool give_back(const Lease& lease) noexcept;

  /// Frees all that a dead worker still had and says how many. Call only once its pidfd was
  /// readable (its WorkerExit was polled) and its returns were drained: before that it may write.
  std::size_t reclaim(std::uint32_t slot, std::uint32_t incarnation) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }
  [[nodiscard]] std::size_t leased() const noexcept { return leased_; }
  /// Accepted and not yet given back. free + leased + held = size at all times.
  [[nodiscard]] std::size_t held() const noexcept { return size() - free() - leased(); }
  /// Leases that accept() or give_back() refused so far.
  [[nodiscard]] std::uint64_t stale() const noexcept { return stale_; }

 private:
  enum class Owner : std::uint8_t { kNobody, kWorker, kParent };
  struct Entry {
    Owner owner = Owner::kNobody;
    std::uint32_t generation = 1;
    std::uint32_t slot = 0;
    std::uint32_t incarnation = 0;
  };

  Entry* match(const Lease& lease, Owner owner) noexcept;
  void release(std::uint32_t buffer) noexcept;

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;  ///< a stack
  std::size_t leased_ = 0;
  std::uint64_t stale_ = 0;
};

}  // namespace passel::shm
