#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "passel/shm/queue.h"
#include "passel/shm_cuda/device_exchange.h"

namespace passel::shm {

/// How plain data T and a buffer lie in a ring.
template <class T>
struct DeviceEntry {
  T data{};
  DeviceHandle handle;
};

/// Buffers on a device, each with plain data T, from all processes of an exchange to one of them.
/// What passes is a handle; for the rest see SimpleQueue and DeviceExchange.
///
/// One thread puts and one gets in each process. The exchange's arena must outlive the queue.
template <class T>
class DeviceQueue {
  using Ring = SimpleQueue<DeviceEntry<T>>;

 public:
  /// Set-up, in the parent.
  /// @param reader the process that gets: 0 is the parent, 1 + slot a worker
  /// @param capacity entries per sender
  /// @throws Error
  static DeviceQueue create(Arena& arena, std::shared_ptr<DeviceExchange> exchange,
                            const std::string& name, std::uint32_t reader,
                            std::uint32_t capacity = 64) {
    const ChunkTable& table = exchange->ledger().table();
    return {std::move(exchange), Ring::create(arena, name,
                                              {.producers = table.processes(),
                                               .capacity = capacity,
                                               .bells = table.inboxes(),
                                               .consumer = reader})};
  }
  /// @throws Error
  static DeviceQueue open(const Arena& arena, std::shared_ptr<DeviceExchange> exchange,
                          const std::string& name) {
    return {std::move(exchange), Ring::open(arena, name)};
  }

  /// Sends a buffer, which the sender may keep, too, but not write before it is back. Whoever gets
  /// it waits, on the device, for what `stream` has been given so far.
  DeviceStatus put(const T& data, const DeviceBuffer& buffer, cudaStream_t stream,
                   Deadline deadline = kNoDeadline) {
    DeviceEntry<T> entry{data, {}};
    DeviceStatus status = DeviceStatus::kTimeout;
    // Room first: nobody else fills it, so that the event is recorded once.
    producer_.doorbell().wait(
        [&] {
          if (producer_.closed()) return true;
          if (producer_.full()) return false;
          status = exchange_->prepare(buffer, stream, entry.handle);
          return status != DeviceStatus::kLent;
        },
        deadline);
    if (status == DeviceStatus::kLent) return DeviceStatus::kTimeout;
    if (producer_.closed() && status != DeviceStatus::kOk) return DeviceStatus::kClosed;
    if (status != DeviceStatus::kOk) return status;
    const std::uint64_t ticket = producer_.pushed();
    const QueueStatus pushed = producer_.try_put(entry);
    if (pushed == QueueStatus::kOk) exchange_->sent(lane_, ticket, entry.handle);
    exchange_->drop(entry.handle);
    return pushed == QueueStatus::kOk ? DeviceStatus::kOk : DeviceStatus::kClosed;
  }

  /// The next buffer, for work in `stream`, which waits for the sender's. In the reader only.
  /// @return kLost, kDamaged, kOtherArena or kStale when an entry was taken whose buffer there is
  ///   no more, or never was
  DeviceStatus get(T& data, DeviceBuffer& buffer, cudaStream_t stream,
                   Deadline deadline = kNoDeadline) {
    if (!consumer_) consumer_.emplace(ring_.consumer());
    DeviceEntry<T> entry;
    DeviceStatus claimed = DeviceStatus::kOk;
    QueueStatus status = QueueStatus::kEmpty;
    consumer_->doorbell().wait(
        [&] {
          status = consumer_->try_get(entry, [&](const DeviceEntry<T>& taken) {
            claimed = exchange_->claim(taken.handle);
          });
          if (status != QueueStatus::kEmpty) return true;
          // Others may wait for what this process forwarded and its receiver has taken by now.
          exchange_->collect();
          return false;
        },
        deadline);
    if (status == QueueStatus::kEmpty) return DeviceStatus::kTimeout;
    if (status == QueueStatus::kClosed) return DeviceStatus::kClosed;
    data = entry.data;
    return claimed == DeviceStatus::kOk ? exchange_->receive(entry.handle, stream, buffer)
                                        : claimed;
  }

  /// For the parent, once `process` is provably dead and before DeviceExchange::forget(): answers
  /// for what it sent and nobody has taken yet, and makes its end usable by a successor.
  void adopt(std::uint32_t process) {
    ChunkLedger& ledger = exchange_->ledger();
    const std::uint32_t lane = ledger.add_lane(ring_.popped(process));
    ring_.for_each_undelivered(process, [&](const DeviceEntry<T>& entry, std::uint64_t ticket) {
      ledger.adopt(lane, ticket, entry.handle.chunk);
    });
    ring_.reset_producer(process);
  }

  /// For the parent, once the reader is provably dead and gets no successor: closes the queue and
  /// drops what waits in it.
  void abandon() {
    ring_.close();
    auto consumer = ring_.consumer();
    for (DeviceEntry<T> entry; consumer.try_get(entry) == QueueStatus::kOk;) {
    }
  }

  /// No more puts; the reader gets what is left. From any process.
  void close() noexcept { ring_.close(); }
  [[nodiscard]] bool closed() const noexcept { return ring_.closed(); }

 private:
  DeviceQueue(std::shared_ptr<DeviceExchange> exchange, Ring ring)
      : exchange_(std::move(exchange)),
        ring_(ring),
        producer_(ring.producer(exchange_->process())),
        lane_(exchange_->ledger().add_lane(ring.popped(exchange_->process()))) {}

  std::shared_ptr<DeviceExchange> exchange_;
  Ring ring_;
  typename Ring::Producer producer_;
  std::uint32_t lane_;
  std::optional<typename Ring::Consumer> consumer_;
};

}  // namespace passel::shm
