#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/deadline.h"
#include "passel/shm/doorbell.h"
#include "passel/shm/queue_layout.h"
#include "passel/shm/ring.h"

namespace passel::shm {

enum class QueueStatus : std::uint8_t { kOk, kTimeout, kFull, kEmpty, kClosed };

/// A bounded queue in shared memory from many producers to one consumer: a ring for each producer,
/// a doorbell for the consumer, and a doorbell for each producer that waits for room.
///
/// No lock, no helper thread, no file descriptor. A process killed at any instruction of put or get
/// leaves a queue that all others can use on; what it published stays deliverable. Entries of one
/// producer come in order; between producers the consumer goes round robin.
///
/// The object is a handle: cheap to copy, valid while the arena is. It and its ends may be made in
/// any process of the arena. Each end is for one thread, and at most one live process may hold the
/// consumer, or the producer of an index, at a time.
template <class T>
class SimpleQueue {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(std::is_default_constructible_v<T>);
  static_assert(alignof(T) <= QueueLayout::kAlign);

 public:
  class Producer;
  class Consumer;

  /// Set-up, in the parent. The capacity is per producer and is rounded up to a power of two.
  /// @throws Error
  static SimpleQueue create(Arena& arena, std::string_view name, QueueOptions options = {}) {
    return SimpleQueue(QueueLayout::create(arena, name, options, sizeof(T), alignof(T)));
  }

  /// @throws Error when there is no such queue or its entries are not T
  static SimpleQueue open(const Arena& arena, std::string_view name) {
    return SimpleQueue(QueueLayout::open(arena, name, sizeof(T), alignof(T)));
  }

  /// The end of producer `index`, below producers(). Throws Error otherwise.
  [[nodiscard]] Producer producer(std::uint32_t index) const {
    layout_.check_producer(index);
    return Producer(layout_, index);
  }
  [[nodiscard]] Consumer consumer() const { return Consumer(layout_); }

  [[nodiscard]] std::uint32_t producers() const noexcept { return layout_.producers(); }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return layout_.capacity(); }

  /// No more puts; the consumer gets what is left and then kClosed. From any process, wakes all
  /// that wait. A put that runs at the same moment may return kOk and not be delivered.
  void close() const noexcept { layout_.close(); }
  [[nodiscard]] bool closed() const noexcept { return layout_.closed(); }

  /// What the consumer sleeps on; also for other parties' news to the same consumer.
  [[nodiscard]] Doorbell& doorbell() const noexcept { return layout_.consumer_bell(); }

  /// For the parent, once the process of producer `index` is provably dead: makes its ring usable
  /// by a successor and wakes the consumer in its place. Published entries stay.
  void reset_producer(std::uint32_t index) const {
    layout_.check_producer(index);
    layout_.reset_producer(index);
  }

  /// Calls f(entry, ticket) for what producer `index` put and nobody has taken yet. For the parent,
  /// once that process is provably dead; the consumer may take entries meanwhile.
  template <class F>
  void for_each_undelivered(std::uint32_t index, F&& f) const {
    layout_.check_producer(index);
    const auto [head, tail] = layout_.undelivered(index);
    const T* const slots = static_cast<const T*>(layout_.slots(index));
    for (std::uint64_t i = head; i != tail; ++i) f(slots[i & (layout_.capacity() - 1)], i);
  }

  /// Whether every entry of every producer has been taken. From any process.
  [[nodiscard]] bool drained() const noexcept {
    for (std::uint32_t i = 0; i < layout_.producers(); ++i) {
      const auto [head, tail] = layout_.undelivered(i);
      if (head != tail) return false;
    }
    return true;
  }

  /// Counts the entries of producer `index` that the consumer has taken; load it with acquire.
  [[nodiscard]] const std::atomic<std::uint64_t>& popped(std::uint32_t index) const noexcept {
    return layout_.indices(index)->head;
  }

  /// For the parent, once the consumer's process is provably dead: drops all entries, opens the
  /// queue again and wakes the producers. Consumer handles made before are void.
  void reset() const noexcept { layout_.reset(); }

 private:
  explicit SimpleQueue(QueueLayout layout) noexcept : layout_(layout) {}

  QueueLayout layout_;
};

/// The putting end.
template <class T>
class SimpleQueue<T>::Producer {
 public:
  /// kOk, kFull or kClosed.
  QueueStatus try_put(const T& value) noexcept {
    if (layout_.closed()) return QueueStatus::kClosed;
    if (!ring_.try_push(value)) return QueueStatus::kFull;
    layout_.consumer_bell().ring();
    return QueueStatus::kOk;
  }

  /// As try_put(), also into a closed queue: for what was put before the close and had to wait
  /// elsewhere.
  QueueStatus try_put_late(const T& value) noexcept {
    if (!ring_.try_push(value)) return QueueStatus::kFull;
    layout_.consumer_bell().ring();
    return QueueStatus::kOk;
  }

  /// Waits for room: kOk, kTimeout or kClosed.
  /// @param spins looks before the first sleep
  QueueStatus put(const T& value, Deadline deadline = kNoDeadline,
                  int spins = Doorbell::kSpins) noexcept {
    QueueStatus status = QueueStatus::kFull;
    layout_.producer_bell(index_).wait(
        [&] { return (status = try_put(value)) != QueueStatus::kFull; }, deadline, spins);
    return status == QueueStatus::kFull ? QueueStatus::kTimeout : status;
  }

  [[nodiscard]] bool full() const noexcept { return ring_.full(); }
  /// As in RingProducer: what this end put, and how much of it the consumer has taken.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return ring_.pushed(); }
  [[nodiscard]] std::uint64_t popped() const noexcept { return ring_.popped(); }

  [[nodiscard]] Doorbell& doorbell() const noexcept { return layout_.producer_bell(index_); }
  [[nodiscard]] bool closed() const noexcept { return layout_.closed(); }

 private:
  friend class SimpleQueue;
  Producer(const QueueLayout& layout, std::uint32_t index) noexcept
      : layout_(layout),
        index_(index),
        ring_(layout.indices(index), static_cast<T*>(layout.slots(index)), layout.capacity()) {}

  QueueLayout layout_;
  std::uint32_t index_;
  RingProducer<T> ring_;
};

/// The getting end.
template <class T>
class SimpleQueue<T>::Consumer {
 public:
  /// kOk, kEmpty or, once closed and drained, kClosed.
  QueueStatus try_get(T& value) noexcept {
    return try_get(value, [](const T&) {});
  }

  /// Calls `claim(value)` while the entry is still in its ring: see RingConsumer.
  template <class Claim>
  QueueStatus try_get(T& value, Claim&& claim) noexcept {
    // Read before the rings: what was published before the close is still delivered.
    const bool closed = layout_.closed();
    for (std::uint32_t i = 0; i < rings_.size(); ++i) {
      const std::uint32_t index = next_;
      next_ = next_ + 1 == rings_.size() ? 0 : next_ + 1;
      if (rings_[index].try_pop(value, claim)) {
        layout_.producer_bell(index).ring();
        return QueueStatus::kOk;
      }
    }
    return closed ? QueueStatus::kClosed : QueueStatus::kEmpty;
  }

  /// Waits for an entry: kOk, kTimeout or kClosed.
  /// @param spins looks before the first sleep
  QueueStatus get(T& value, Deadline deadline = kNoDeadline,
                  int spins = Doorbell::kSpins) noexcept {
    QueueStatus status = QueueStatus::kEmpty;
    layout_.consumer_bell().wait([&] { return (status = try_get(value)) != QueueStatus::kEmpty; },
                                 deadline, spins);
    return status == QueueStatus::kEmpty ? QueueStatus::kTimeout : status;
  }

  [[nodiscard]] bool empty() noexcept {
    for (RingConsumer<T>& ring : rings_) {
      if (!ring.empty()) return false;
    }
    return true;
  }

  /// To wait for an entry or for something else:
  /// doorbell().wait([&] { return !c.empty() || c.closed() || other(); }, deadline).
  [[nodiscard]] Doorbell& doorbell() const noexcept { return layout_.consumer_bell(); }
  [[nodiscard]] bool closed() const noexcept { return layout_.closed(); }

 private:
  friend class SimpleQueue;
  explicit Consumer(const QueueLayout& layout) : layout_(layout) {
    rings_.reserve(layout.producers());
    for (std::uint32_t i = 0; i < layout.producers(); ++i) {
      rings_.emplace_back(layout.indices(i), static_cast<const T*>(layout.slots(i)),
                          layout.capacity());
    }
  }

  QueueLayout layout_;
  std::vector<RingConsumer<T>> rings_;
  std::uint32_t next_ = 0;
};

}  // namespace passel::shm
