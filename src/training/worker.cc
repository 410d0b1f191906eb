#include "passel/train/worker.h"

#include <fmt/format.h>
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
  if (memory_.states) carried_.emplace(*memory_.states, model_, config_.batch_size);
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
  const at::Tensor x = tensor_of(grant, grant.x), target = tensor_of(grant, grant.target);
  const at::Tensor dropout =
      dropout_factors(config_.dropout, config_.seed, grant.batch, x.size(1), config_.hidden_size);
  Model::State state;
  if (carried_) state = carried_->read(grant.batch, tensor_of(grant, grant.fresh));
  const at::Tensor loss = model_.loss(x, target, dropout, carried_ ? &state : nullptr);
  const Gradient gradient = take_gradient(loss);
  // Before the ticket can be seen to be done.
  if (carried_) carried_->write(grant.batch, gradient.finite() ? &state : nullptr);
  const Versions versions = mode_->commit(grant, gradient);
  return {.ticket = grant.ticket,
          .lease = grant.lease,
          .base_version = versions.base,
          .applied_version = versions.applied,
          .loss = gradient.loss};
}

at::Tensor Worker::tensor_of(const Grant& grant, const shm::TensorHandle& handle) const {
  auto tensor = shm::to_tensor(arena_, handle);
  if (tensor) return *std::move(tensor);
  throw std::runtime_error(
      fmt::format("ticket {}: the grant's tensor handles are damaged", grant.ticket));
}

// Takes the gradients away from the parameters, so that the next backward
// stores its own instead of adding to these.
Gradient Worker::take_gradient(const at::Tensor& loss) {
  loss.backward();
  gradients_.clear();
  double square = 0;
  for (const auto& [name, parameter] : model_.parameters()) {
    const at::Tensor& gradient = gradients_.emplace_back(parameter.grad().contiguous());
    square += kernels::squared_norm(gradient.const_data_ptr<float>(),
                                    static_cast<std::size_t>(gradient.numel()));
    parameter.mutable_grad().reset();
  }
  return {.loss = loss.item<float>(), .values = gradients_, .squared_norm = square};
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
