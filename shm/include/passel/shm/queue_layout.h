#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "passel/shm/arena.h"
#include "passel/shm/doorbell.h"
#include "passel/shm/ring.h"

namespace passel::shm {

struct QueueOptions {
  std::uint32_t producers = 1;
  std::uint32_t capacity = 64;  ///< entries per producer
  /// Bells of the same arena to use in place of the queue's own, so that a process can sleep on
  /// one bell for all of its queues: producer i waits for room on bells[i], the consumer for
  /// entries on bells[consumer]. Empty: a bell for each end.
  std::span<Doorbell> bells = {};
  std::uint32_t consumer = 0;
};

/// Where the parts of a SimpleQueue lie in its block, whatever its entries are:
/// [Head][Lane x producers][slots of producer 0][slots of producer 1]... each on a border of
/// kAlign. Sizes are copied from shared memory and checked once, so that nothing a process
/// scribbles later makes an address.
class QueueLayout {
 public:
  static constexpr std::size_t kAlign = 128;

  static QueueLayout create(Arena& arena, std::string_view name, QueueOptions options,
                            std::size_t entry_bytes, std::size_t entry_align);
  static QueueLayout open(const Arena& arena, std::string_view name, std::size_t entry_bytes,
                          std::size_t entry_align);

  [[nodiscard]] std::uint32_t producers() const noexcept { return producers_; }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] Doorbell& consumer_bell() const noexcept {
    return bells_ == nullptr ? head_->bell : bells_[consumer_];
  }
  [[nodiscard]] Doorbell& producer_bell(std::uint32_t i) const noexcept {
    return bells_ == nullptr ? lanes_[i].bell : bells_[i];
  }
  [[nodiscard]] RingIndices* indices(std::uint32_t i) const noexcept { return &lanes_[i].indices; }
  [[nodiscard]] void* slots(std::uint32_t i) const noexcept { return slots_ + i * slots_bytes_; }

  [[nodiscard]] bool closed() const noexcept {
    // Acquire pairs with the release in close(): what was published before it is seen after it.
    return head_->closed.load(std::memory_order_acquire) != 0;
  }
  void close() const noexcept;
  /// [head, tail) of a ring; empty when the indices make no sense.
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> undelivered(std::uint32_t i) const noexcept;
  void reset_producer(std::uint32_t index) const noexcept;
  void reset() const noexcept;

  /// @throws Error when there is no such producer
  void check_producer(std::uint32_t index) const;

 private:
  struct Head {
    std::uint64_t magic;
    std::uint64_t entry_bytes;
    std::uint64_t entry_align;
    std::uint32_t producers;
    std::uint32_t capacity;
    std::uint64_t bells;  ///< bytes from the arena's start; 0: its own
    std::uint64_t bell_count;
    std::uint32_t consumer;  ///< index of its bell
    alignas(kAlign) std::atomic<std::uint32_t> closed;
    Doorbell bell;
  };
  struct Lane {
    Doorbell bell;
    RingIndices indices;
  };

  QueueLayout(std::byte* block, std::uint32_t producers, std::uint32_t capacity,
              std::size_t entry_bytes) noexcept;
  void use_bells(const Arena& arena, const Head& head, std::string_view name);
  static std::size_t slots_bytes(std::uint32_t capacity, std::size_t entry_bytes) noexcept;
  static std::size_t block_bytes(std::uint32_t producers, std::uint32_t capacity,
                                 std::size_t entry_bytes) noexcept;

  Head* head_;
  Lane* lanes_;
  std::byte* slots_;
  std::size_t slots_bytes_;
  std::uint32_t producers_;
  std::uint32_t capacity_;
  Doorbell* bells_ = nullptr;
  std::uint32_t consumer_ = 0;
};

}  // namespace passel::shm
