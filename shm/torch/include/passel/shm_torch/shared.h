#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm/supervisor.h"
#include "passel/shm_torch/named_tensors.h"
#include "passel/shm_torch/record_queue.h"
#include "passel/shm_torch/shared_value.h"
#include "passel/shm_torch/tensor_exchange.h"
#include "passel/shm_torch/tensor_queue.h"

namespace passel::shm {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

struct SharedSettings {
  std::uint32_t workers = 1;
  std::size_t memory = 64 * kMiB;  ///< bytes for share(), value() and queues together
  std::size_t region = 64 * kMiB;  ///< bytes that each process can have out in queues
  std::uint32_t chunks = 4096;     ///< tensors that each process can have out at once
  std::uint64_t seed = 0;          ///< of the workers' random numbers
};

struct ShareOptions {
  bool gradients = false;
};

/// Who gets what is put into a queue.
enum class ReadBy : std::uint8_t {
  kWorkers,  ///< each message goes to one of the workers
  kParent,
  kWorker,  ///< one worker, TensorQueueOptions::worker
};

struct TensorQueueOptions {
  std::uint32_t capacity = 64;  ///< messages per sender and reader, rounded up to a power of two
  ReadBy read_by = ReadBy::kWorkers;
  std::uint32_t worker = 0;  ///< the slot, for kWorker
};

/// What a Shared and the context of its workers own together: either may be dropped first.
class SharedState {
 public:
  explicit SharedState(Arena memory) : arena(std::make_shared<Arena>(std::move(memory))) {}

  /// Settles what a dead worker leaves. `replaced`: it gets a successor.
  void bury(const WorkerExit& exit, bool replaced);
  /// Takes note of what receivers let go; true while more is to come.
  bool collect();
  /// Wakes every process that waits for anything.
  void wake_all() noexcept;
  /// There are no workers any more: closes all queues, which can still be read.
  void close_all() noexcept;

  std::shared_ptr<Arena> arena;
  std::shared_ptr<TensorExchange> exchange;
  std::vector<std::shared_ptr<ExchangeQueue>> channels;
  bool spawned = false;
};

/// The parent's side of the memory that it shares with its workers. Make all that
/// is shared before spawn(); workers find it by name.
///
/// Threads: set-up from one thread; queues and tensors from any.
class Shared {
 public:
  /// @throws Error naming the bytes when the machine has not as many
  explicit Shared(const SharedSettings& settings);
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Moves a tensor, a list or dict of tensors, or all parameters and buffers of a
  /// module (a torch::nn::Module, a pointer or a holder) into shared memory, in
  /// place: like share_memory() in Python. Gradients stay private to each process, unless
  /// they are asked for: then each tensor that requires grad gets one of zeros, which all
  /// processes that bind() add to. Clear it in place: zero_grad(false).
  void share(const std::string& name, const at::Tensor& tensor);
  void share(const std::string& name, std::span<const at::Tensor> tensors);
  void share(const std::string& name, std::span<const NamedTensor> tensors,
             ShareOptions options = {});
  template <class Module>
  requires requires(Module& module) { module_of(module).named_buffers(); }
  void share(const std::string& name, Module& module, ShareOptions options = {}) {
    share(name, named_tensors(module_of(module)), options);
  }
  void share(const std::string& name, const std::vector<NamedTensor>& tensors,
             ShareOptions options = {}) {
    share(name, std::span(tensors), options);
  }

  /// Plain data that all processes read and write; atomics, where they do so at once.
  template <class T>
  T& value(const std::string& name, const T& initial) {
    return create_value(*state_->arena, name, initial);
  }

  /// A queue of tensors from every process, the workers included.
  TensorQueue queue(const std::string& name, const TensorQueueOptions& options = {}) {
    return TensorQueue(create_channel<NoData, 1>(name, options));
  }
  /// A queue of records: plain data T and up to N tensors each.
  template <class T, int N>
  RecordQueue<T, N> queue(const std::string& name, const TensorQueueOptions& options = {}) {
    return RecordQueue<T, N>(create_channel<T, N>(name, options));
  }

  /// See TensorExchange.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) {
    return exchange().empty(sizes, dtype);
  }
  at::Tensor compact(const at::Tensor& tensor) { return exchange().compact(tensor); }

  [[nodiscard]] std::uint32_t workers() const noexcept { return settings_.workers; }
  [[nodiscard]] Arena& arena() noexcept { return *state_->arena; }
  [[nodiscard]] TensorExchange& exchange() noexcept { return *state_->exchange; }
  /// For spawn().
  [[nodiscard]] const std::shared_ptr<SharedState>& state() noexcept { return state_; }

 private:
  [[nodiscard]] Readers readers(const std::string& name, const TensorQueueOptions& options) const;

  template <class T, int N>
  std::shared_ptr<RecordChannel<T, N>> create_channel(const std::string& name,
                                                      const TensorQueueOptions& options) {
    auto channel = RecordChannel<T, N>::create(arena(), state_->exchange, name, options.capacity,
                                               readers(name, options));
    state_->channels.push_back(channel);
    return channel;
  }

  SharedSettings settings_;
  std::shared_ptr<SharedState> state_;
};

}  // namespace passel::shm
