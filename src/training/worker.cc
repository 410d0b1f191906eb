#include "passel/train/worker.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>

#include "passel/train/dropout.h"

namespace passel::train {
namespace {

using namespace std::chrono_literals;

// The activations of a step are freed and allocated again at the next one; keep
// their pages instead of handing them to the kernel and faulting them in again.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace

Worker::Worker(const shm::Arena& arena, std::uint32_t slot, std::uint32_t incarnation)
    : arena_(arena),
      config_(TrainingMemory::read_config(arena)),
      model_(TrainingMemory::read_shape(arena), config_.hidden_size, config_.seed),
      memory_(TrainingMemory::open(arena, config_, model_)),
      mode_(make_mode(config_, memory_, model_, slot)),
      grants_(memory_.grants.at(slot).consumer()),
      done_(memory_.done.producer(slot)) {
  report({.ticket = Done::kReady, .lease = {.slot = slot, .incarnation = incarnation}});
}

// While the parameters of a ticket are waited for, the one that makes them may come, of a worker
// that died: it is looked at then.
void Worker::run() {
  while (take_grants()) compute_next([this] { return !grants_.empty(); });
}

bool Worker::try_step() {
  Grant grant;
  while (grants_.try_get(grant) == shm::QueueStatus::kOk) keep(grant);
  return !waiting_.empty() && compute_next([] { return true; });
}

// Takes all that was granted, at least one ticket; the oldest comes first. False when there is
// and will be nothing.
bool Worker::take_grants() {
  Grant grant;
  while (waiting_.empty() || !grants_.empty()) {
    const auto status = grants_.get(grant, shm::after(1h));
    if (status == shm::QueueStatus::kClosed) return !waiting_.empty();
    if (status == shm::QueueStatus::kOk) keep(grant);
  }
  return true;
}

void Worker::keep(const Grant& grant) {
  waiting_.insert(std::ranges::upper_bound(waiting_, grant.ticket, {}, &Grant::ticket), grant);
}

// False: there was news before its parameters were there.
bool Worker::compute_next(const std::function<bool()>& news) {
  const Grant grant = waiting_.front();
  if (!mode_->begin(grant, news)) return false;
  waiting_.pop_front();
  report(compute(grant));
  return true;
}

Done Worker::compute(const Grant& grant) {
  const auto x = shm::to_tensor(arena_, grant.x);
  const auto target = shm::to_tensor(arena_, grant.target);
  if (!x || !target) {
    throw std::runtime_error("ticket " + std::to_string(grant.ticket) +
                             ": the grant's tensor handles are damaged");
  }
  const at::Tensor dropout =
      dropout_factors(config_.dropout, config_.seed, grant.batch, x->size(1), config_.hidden_size);
  const at::Tensor loss = model_.loss(*x, *target, dropout);
  loss.backward();
  collect_gradients();
  const auto value = loss.item<float>();
  const Versions versions = mode_->commit(grant, value, gradients_);
  return {.ticket = grant.ticket,
          .lease = grant.lease,
          .base_version = versions.base,
          .applied_version = versions.applied,
          .loss = value};
}

// Takes the gradients away from the parameters, so that the next backward
// stores its own instead of adding to these.
void Worker::collect_gradients() {
  gradients_.clear();
  for (const auto& [name, parameter] : model_.parameters()) {
    gradients_.push_back(parameter.grad().contiguous());
    parameter.mutable_grad().reset();
  }
}

void Worker::report(const Done& done) {
  const auto status = done_.put(done, shm::after(1h));
  if (status == shm::QueueStatus::kTimeout)
    throw std::runtime_error("the parent took no results for an hour");
}

void run_worker(shm::WorkerContext& context) {
  keep_freed_memory();
  spdlog::info("worker {} incarnation {} starts", context.slot, context.incarnation);
  Worker(context.arena, context.slot, context.incarnation).run();
  spdlog::info("worker {} incarnation {} is done", context.slot, context.incarnation);
}

}  // namespace passel::train
