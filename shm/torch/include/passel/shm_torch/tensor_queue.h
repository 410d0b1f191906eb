#pragma once

#include "passel/shm_torch/record_channel.h"

namespace passel::shm {

struct NoData {};

/// A RecordQueue of single tensors: see there.
class TensorQueue {
 public:
  using Channel = RecordChannel<NoData, 1>;

  explicit TensorQueue(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  /// Waits for room for as long as it takes.
  /// @throws as RecordQueue::put
  void put(const at::Tensor& tensor) {
    if (put(tensor, kNoDeadline) == QueueStatus::kClosed) channel_->refuse_closed();
  }
  /// kOk, kTimeout (no room, or no memory free, until the deadline) or kClosed.
  QueueStatus put(const at::Tensor& tensor, Deadline deadline) {
    return channel_->put({}, std::span(&tensor, 1), deadline);
  }
  /// kOk, kFull or kClosed.
  QueueStatus try_put(const at::Tensor& tensor) {
    const QueueStatus status = put(tensor, kNow);
    return status == QueueStatus::kTimeout ? QueueStatus::kFull : status;
  }

  /// Waits for a tensor for as long as it takes. When it is empty and what it throws: as
  /// RecordQueue::get().
  std::optional<at::Tensor> get() {
    at::Tensor tensor;
    if (get(tensor, kNoDeadline) != QueueStatus::kOk) return std::nullopt;
    return tensor;
  }
  /// kOk, kTimeout or kClosed.
  QueueStatus get(at::Tensor& tensor, Deadline deadline) {
    Channel::Entry entry;
    const QueueStatus status = channel_->receive(entry, deadline);
    if (status != QueueStatus::kOk) return status;
    if (entry.handles().empty()) channel_->refuse_message(HandleStatus::kDamaged);
    tensor = channel_->exchange().rebuild(entry.tensors[0]);
    return status;
  }
  /// kOk, kEmpty or kClosed.
  QueueStatus try_get(at::Tensor& tensor) {
    const QueueStatus status = get(tensor, kNow);
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
