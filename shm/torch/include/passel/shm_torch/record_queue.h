#pragma once

#include <initializer_list>

#include "passel/shm_torch/record_channel.h"

namespace passel::shm {

/// One message: plain data and tensors.
template <class T>
struct Record {
  T data{};
  std::vector<at::Tensor> tensors = {};
};

/// A bounded queue of messages, each of plain data (T, trivially copyable) and up
/// to N tensors (with N = 0 of data alone), from every process of a Shared to one reader, or to all
/// workers, among whom messages are dealt out: each goes to the worker with the fewest waiting.
/// Messages of one sender to one reader come in order.
///
/// Tensors travel as handles. One that is not in shared memory yet is moved there
/// once (TensorExchange::share); one that is, a received one included, is not
/// copied. A received tensor keeps its bytes until it is dropped, whoever dies
/// meanwhile.
///
/// No lock between processes, no feeder thread, no descriptor: a process killed at
/// any instruction leaves a queue that all others can use, and the end of a process
/// never waits for a reader.
///
/// A handle, cheap to copy. Threads: any.
template <class T, int N>
class RecordQueue {
 public:
  using Channel = RecordChannel<T, N>;

  explicit RecordQueue(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  /// Waits for room for as long as it takes. Without tensors the record is plain data only.
  /// @throws Error for a closed queue, more than N tensors, a tensor that cannot be
  ///   sent or that the process's region can never hold; and what an Interruption raises
  void put(const T& data, std::initializer_list<at::Tensor> tensors = {}) {
    put(data, std::span(tensors.begin(), tensors.size()));
  }
  void put(const T& data, std::span<const at::Tensor> tensors) {
    if (channel_->put(data, tensors, kNoDeadline) == QueueStatus::kClosed)
      channel_->refuse_closed();
  }

  /// kOk, kTimeout (no room, or no memory free, until the deadline) or kClosed.
  QueueStatus put(const T& data, std::initializer_list<at::Tensor> tensors, Deadline deadline) {
    return channel_->put(data, std::span(tensors.begin(), tensors.size()), deadline);
  }
  QueueStatus put(const T& data, std::span<const at::Tensor> tensors, Deadline deadline) {
    return channel_->put(data, tensors, deadline);
  }
  /// kOk, kFull or kClosed.
  QueueStatus try_put(const T& data, std::initializer_list<at::Tensor> tensors) {
    const QueueStatus status = put(data, tensors, kNow);
    return status == QueueStatus::kTimeout ? QueueStatus::kFull : status;
  }

  /// Waits for a message for as long as it takes; empty once the queue is closed and
  /// all readers have taken theirs, or when nobody is left who could put. A put at the
  /// very moment of a close() may not be delivered.
  /// @throws Error when this process does not read the queue, or for a message with a
  ///   damaged or stale handle, which is dropped; and what an Interruption raises
  std::optional<Record<T>> get() {
    Record<T> record;
    if (get(record, kNoDeadline) != QueueStatus::kOk) return std::nullopt;
    return record;
  }
  /// kOk, kTimeout or kClosed.
  QueueStatus get(Record<T>& record, Deadline deadline) {
    return channel_->get(record.data, record.tensors, deadline);
  }
  /// kOk, kEmpty or kClosed.
  QueueStatus try_get(Record<T>& record) {
    const QueueStatus status = get(record, kNow);
    return status == QueueStatus::kTimeout ? QueueStatus::kEmpty : status;
  }

  /// No more puts; readers get what is left. From any process.
  void close() noexcept { channel_->close(); }
  [[nodiscard]] bool closed() const noexcept { return channel_->closed(); }
  [[nodiscard]] const std::string& name() const noexcept { return channel_->name(); }
  /// For wait_any().
  [[nodiscard]] ExchangeQueue* channel() const noexcept { return channel_.get(); }

 private:
  std::shared_ptr<Channel> channel_;
};

}  // namespace passel::shm
