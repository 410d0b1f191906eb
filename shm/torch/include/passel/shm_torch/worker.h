#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "passel/shm/worker.h"
#include "passel/shm_torch/named_tensors.h"
#include "passel/shm_torch/record_queue.h"
#include "passel/shm_torch/shared_tensors.h"
#include "passel/shm_torch/shared_value.h"
#include "passel/shm_torch/tensor_exchange.h"
#include "passel/shm_torch/tensor_queue.h"

namespace passel::shm {

/// A spawned worker's side of what the parent shared. Made by spawn() before the
/// entry runs; torch's random numbers are seeded by then with the run's seed, the
/// slot and the incarnation.
///
/// Threads: queues and tensors from any, all else from the entry's.
class Worker {
 public:
  explicit Worker(WorkerContext& context);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] std::uint32_t slot() const noexcept { return context_.slot; }
  /// The how-manieth process of this slot, from 1.
  [[nodiscard]] std::uint32_t incarnation() const noexcept { return context_.incarnation; }
  [[nodiscard]] std::uint32_t workers() const noexcept;
  /// Ctrl-C was pressed in the parent: finish. Queues then behave as if closed.
  [[nodiscard]] bool stop_requested() const { return context_.stop_requested(); }

  /// Makes the parameters and buffers of a module, built as in the parent, the shared
  /// ones. From then on they are checked at every get() of a queue: see check_sharing().
  template <class Module>
  void bind(const std::string& name, Module& module) {
    bind(name, named_tensors(module_of(module)));
  }
  void bind(const std::string& name, const std::vector<NamedTensor>& tensors);
  /// @throws SharingLost when a bound tensor has been given other memory
  void check_sharing() const { exchange_->check_sharing(); }

  /// What the parent shared under this name.
  at::Tensor tensor(const std::string& name) const;
  std::vector<NamedTensor> tensors(const std::string& name) const;
  /// @throws Error when there is no such value, or it was created with another type
  template <class T>
  T& value(const std::string& name) const {
    return open_value<T>(context_.arena, name);
  }

  /// The parent's queue of this name; the same one however often it is asked for.
  /// @throws Error when there is none, or it was created for other records
  TensorQueue queue(const std::string& name) { return TensorQueue(open_channel<NoData, 1>(name)); }
  template <class T, int N>
  RecordQueue<T, N> queue(const std::string& name) {
    return RecordQueue<T, N>(open_channel<T, N>(name));
  }

  /// See TensorExchange.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) const {
    return exchange_->empty(sizes, dtype);
  }
  at::Tensor compact(const at::Tensor& tensor) const { return exchange_->compact(tensor); }
  [[nodiscard]] TensorExchange& exchange() const noexcept { return *exchange_; }

 private:
  // One channel per name: two would each think that the ends of its rings are theirs.
  template <class T, int N>
  std::shared_ptr<RecordChannel<T, N>> open_channel(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<ExchangeQueue>& known = channels_[name];
    if (auto channel = std::dynamic_pointer_cast<RecordChannel<T, N>>(known)) return channel;
    auto channel = RecordChannel<T, N>::open(exchange_, name);
    if (known != nullptr) refuse_type(name);
    known = channel;
    return channel;
  }
  [[noreturn]] static void refuse_type(const std::string& name);

  WorkerContext& context_;
  std::shared_ptr<TensorExchange> exchange_;
  std::mutex mutex_;  // guards
  std::map<std::string, std::shared_ptr<ExchangeQueue>> channels_;
};

}  // namespace passel::shm
