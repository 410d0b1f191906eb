#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "passel/shm/queue.h"
#include "passel/shm_torch/tensor_exchange.h"

namespace passel::shm {

/// The processes that read a queue. With several, each message goes to one of
/// them.
struct Readers {
  std::uint32_t first;
  std::uint32_t count;

  [[nodiscard]] bool include(std::uint32_t process) const noexcept {
    return process >= first && process - first < count;
  }
};

/// What the parent notes of a queue, for those who open it.
struct ChannelInfo {
  Readers readers;
  std::uint64_t type;  ///< of the plain data; the same in every process of one executable
  std::int32_t tensors;
  /// Messages that waited for a dead reader and are in the parent's hands; written by the parent.
  std::atomic<std::uint32_t> orphans;
};

/// What all queues of tensors have in common, whatever their plain data.
class ExchangeQueue {
 public:
  ExchangeQueue(std::shared_ptr<TensorExchange> exchange, std::string name, Readers readers);
  virtual ~ExchangeQueue() = default;
  ExchangeQueue(const ExchangeQueue&) = delete;
  ExchangeQueue& operator=(const ExchangeQueue&) = delete;

  virtual void close() noexcept = 0;
  [[nodiscard]] virtual bool closed() const noexcept = 0;
  /// @throws Error when this process is no reader of the queue
  void check_reader() const;
  /// For a reader: get() would not wait.
  [[nodiscard]] virtual bool ready() noexcept = 0;

  /// For the parent, once `process` is provably dead: answers for what it sent and
  /// nobody has taken yet, and makes its end usable by a successor.
  virtual void adopt(std::uint32_t process) = 0;
  /// For the parent, once `process` is dead and gets no successor: what waits for
  /// it goes to the other readers; without one the queue is closed.
  virtual void abandon(std::uint32_t process) = 0;
  /// For the parent: hands on what abandon() found no room for, also after a close().
  /// @return whether there is still something
  virtual bool hand_on() = 0;

  /// @throws Error: a message with such a handle was dropped
  [[noreturn]] void refuse_message(HandleStatus status) const;
  /// @throws Stopped in a worker when the run is being stopped, otherwise Error: the queue is
  ///   closed, or all workers have ended
  [[noreturn]] void refuse_closed() const;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] TensorExchange& exchange() const noexcept { return *exchange_; }

 protected:
  enum class Wait : std::uint8_t { kReady, kTimeout, kInterrupted };

  /// Sleeps on the process's inbox until ready(), the deadline, or an interruption
  /// that has nothing to throw.
  template <class Ready>
  Wait wait(Ready&& ready, Deadline deadline) {
    if (deadline == kNow) return Wait::kTimeout;
    const Interruption& interruption = exchange_->interruption();
    bool done = false;
    exchange_->inbox().wait(
        [&] {
          if ((done = ready()) || interruption.pending()) return true;
          // Others may wait for what this process handed on and its receiver has taken by now.
          exchange_->ledger().collect();
          return false;
        },
        deadline);
    if (done) return Wait::kReady;
    if (!interruption.pending()) return Wait::kTimeout;
    // What the last one sent before it ended may have come between the two looks.
    if (ready()) return Wait::kReady;
    interruption.raise();
    return Wait::kInterrupted;
  }

  /// @throws Error: the queue was created for other records
  [[noreturn]] static void refuse_type(const std::string& name);
  [[nodiscard]] Readers readers() const noexcept { return readers_; }
  [[nodiscard]] std::string quoted() const { return "queue '" + name_ + "'"; }
  /// @throws Error that names the queue besides
  [[noreturn]] void refuse_tensor(const Error& error) const;
  [[noreturn]] void refuse_count(std::size_t count, std::size_t most) const;

  /// Claims the handles of a message that is still in its ring: all, or none.
  HandleStatus claim(std::span<const TensorHandle> handles) noexcept;

 private:
  std::shared_ptr<TensorExchange> exchange_;
  std::string name_;
  Readers readers_;
};

/// Sleeps until one of the queues has something to get, is closed, or the deadline
/// passes. All must be read by this process.
/// @return its index; queues.size() at the deadline or at a stop of the run
/// @throws what an Interruption raises
std::size_t wait_any(std::span<ExchangeQueue* const> queues, Deadline deadline = kNoDeadline);

}  // namespace passel::shm
