#include "passel/shm_torch/exchange_queue.h"

#include "passel/shm/error.h"
#include "passel/shm/fork_guard.h"

namespace passel::shm {
namespace {

std::string process_name(std::uint32_t process) {
  return process == 0 ? "the parent" : "worker " + std::to_string(process - 1);
}

}  // namespace

ExchangeQueue::ExchangeQueue(std::shared_ptr<TensorExchange> exchange, std::string name,
                             Readers readers)
    : exchange_(std::move(exchange)), name_(std::move(name)), readers_(readers) {}

void ExchangeQueue::check_reader() const {
  if (readers_.include(exchange_->process())) return;
  std::string who = process_name(readers_.first);
  if (readers_.count > 1) who += " to " + process_name(readers_.first + readers_.count - 1);
  throw Error("get from " + quoted(), 0,
              "It is read by " + who + ", and this is " + process_name(exchange_->process()) +
                  ": name other readers when you create it");
}

void ExchangeQueue::refuse_tensor(const Error& error) const {
  throw Error("put into " + quoted() + ": " + error.operation(), error.code(), error.hint());
}

void ExchangeQueue::refuse_closed() const {
  if (!closed() && exchange_->process() != 0) throw Stopped("put into " + quoted());
  if (!closed()) {
    throw Error("put into " + quoted(), 0, "All workers have ended: nobody would get it");
  }
  throw Error("put into " + quoted(), 0, "It was closed: nobody would get it");
}

void ExchangeQueue::refuse_count(std::size_t count, std::size_t most) const {
  throw Error("put a record with " + std::to_string(count) + " tensors into " + quoted(), 0,
              "It was created for at most " + std::to_string(most));
}

void ExchangeQueue::refuse_message(HandleStatus status) const {
  throw Error("get from " + quoted(), 0,
              std::string("A message was dropped, for a tensor handle in it ") + to_string(status) +
                  ": some process wrote into shared memory what it should not have");
}

void ExchangeQueue::refuse_type(const std::string& name) {
  throw Error("open queue '" + name + "'", 0,
              "It was created for other records: use the types it was created with");
}

HandleStatus ExchangeQueue::claim(std::span<const TensorHandle> handles) noexcept {
  for (std::size_t i = 0; i < handles.size(); ++i) {
    const HandleStatus status = exchange_->claim(handles[i]);
    if (status == HandleStatus::kOk) continue;
    for (const TensorHandle& claimed : handles.first(i)) exchange_->drop(claimed);
    return status;
  }
  return HandleStatus::kOk;
}

std::size_t wait_any(std::span<ExchangeQueue* const> queues, Deadline deadline) {
  throw_if_forked();
  if (queues.empty()) {
    throw Error("wait for any of no queues", 0, "Expected at least one queue");
  }
  for (const ExchangeQueue* queue : queues) queue->check_reader();
  std::size_t found = queues.size();
  const auto look = [&] {
    for (std::size_t i = 0; i < queues.size(); ++i) {
      if (queues[i]->ready()) {
        found = i;
        return true;
      }
    }
    return false;
  };
  TensorExchange& exchange = queues[0]->exchange();
  const Interruption& interruption = exchange.interruption();
  exchange.inbox().wait(
      [&] {
        if (look() || interruption.pending()) return true;
        exchange.ledger().collect();  // as ExchangeQueue::wait()
        return false;
      },
      deadline);
  // Once more, because something may have come between the look and the interruption.
  if (found == queues.size() && interruption.pending() && !look()) interruption.raise();
  return found;
}

}  // namespace passel::shm
