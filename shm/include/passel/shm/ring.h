#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace passel::shm {

/// The shared part of a single-producer, single-consumer ring: entries [head, tail) are published.
/// 64-bit counts never wrap. One process writes each word; the slots lie elsewhere.
struct RingIndices {
  alignas(128) std::atomic<std::uint64_t> tail{0};  ///< written by the producer
  alignas(128) std::atomic<std::uint64_t> head{0};  ///< written by the consumer
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
};

/// The writing end. Local to one thread of one process; at most one per ring at a time.
///
/// The index of the other side is cached here, so that its cache line moves once per lap and not
/// once per entry. All state needed after a SIGKILL is in RingIndices: a new end goes on where the
/// dead one's last publishing store stopped.
template <class T>
class RingProducer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// @param slots [capacity], in shared memory
  /// @param capacity a power of two
  RingProducer(RingIndices* indices, T* slots, std::uint64_t capacity) noexcept
      : indices_(indices),
        slots_(slots),
        mask_(capacity - 1),
        tail_(indices->tail.load(std::memory_order_relaxed)),  // own side's word
        head_seen_(tail_ - capacity) {}                        // "full": look before the first push

  /// False when the ring is full.
  bool try_push(const T& value) noexcept {
    if (tail_ - head_seen_ > mask_) {
      // Acquire pairs with the release in try_pop: the slot was read before it is written again.
      head_seen_ = indices_->head.load(std::memory_order_acquire);
      if (tail_ - head_seen_ > mask_) return false;
    }
    slots_[tail_ & mask_] = value;
    // Release pairs with the acquire in try_pop. This store alone commits the entry.
    indices_->tail.store(++tail_, std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool full() const noexcept { return pushed() - popped() > mask_; }

  /// Entries ever pushed: the last one has the ticket pushed() - 1.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return tail_; }
  /// Entries ever popped: those of lower tickets have left the ring for good.
  [[nodiscard]] std::uint64_t popped() const noexcept {
    // Acquire as in try_push; what the consumer claimed before it popped is seen, too.
    return indices_->head.load(std::memory_order_acquire);
  }

 private:
  RingIndices* indices_;
  T* slots_;
  std::uint64_t mask_;
  std::uint64_t tail_;
  std::uint64_t head_seen_;
};

/// The reading end. Local to one thread of one process; at most one per ring at a time.
///
/// A process killed between copying an entry and storing head leaves the entry in the ring: its
/// successor gets it again. A tail that no producer can have written (more than the capacity
/// ahead) reads as empty, so a producer that scribbles can send garbage but not trap the reader.
template <class T>
class RingConsumer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  /// Parameters as for RingProducer.
  RingConsumer(RingIndices* indices, const T* slots, std::uint64_t capacity) noexcept
      : indices_(indices),
        slots_(slots),
        mask_(capacity - 1),
        head_(indices->head.load(std::memory_order_relaxed)),  // own side's word
        tail_seen_(head_) {}

  /// False when the ring is empty.
  bool try_pop(T& value) noexcept {
    return try_pop(value, [](const T&) {});
  }

  /// Calls `claim(value)` while the entry is still in the ring, so that what the entry lends is
  /// claimed before its sender can see it gone. A kill between the two repeats the claim.
  template <class Claim>
  bool try_pop(T& value, Claim&& claim) noexcept {
    if (tail_seen_ == head_ && !refresh()) return false;
    value = slots_[head_ & mask_];
    claim(value);
    // Release pairs with the acquire in try_push: the copy is done before the slot is free.
    indices_->head.store(++head_, std::memory_order_release);
    return true;
  }

  [[nodiscard]] bool empty() noexcept { return tail_seen_ == head_ && !refresh(); }

 private:
  bool refresh() noexcept {
    // Acquire pairs with the release in try_push: the entry is complete.
    const std::uint64_t tail = indices_->tail.load(std::memory_order_acquire);
    if (tail == head_ || tail - head_ > mask_ + 1) return false;
    tail_seen_ = tail;
    return true;
  }

  RingIndices* indices_;
  const T* slots_;
  std::uint64_t mask_;
  std::uint64_t head_;
  std::uint64_t tail_seen_;
};

}  // namespace passel::shm
