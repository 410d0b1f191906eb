#include "passel/train/worker.h"

#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "passel/train/dropout.h"
#include "passel/train/torch_error.h"

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
      slot_(slot),
      config_(TrainingMemory::read_config(arena)),
      place_(device::open_place(arena, slot)),
      model_(TrainingMemory::read_shape(arena), config_.hidden_size, config_.seed),
      memory_(TrainingMemory::open(arena, config_, model_, place_.memory)),
      mode_(make_mode(
          config_, memory_,
          place_.device->bind(model_.parameters(), memory_.parameters.spans(), memory_.versions),
          slot)),
      grants_(memory_.grants.at(slot).consumer()),
      done_(memory_.done.producer(slot)),
      borders_(memory_.counters->borders.load()) {
  if (memory_.states) carried_.emplace(*memory_.states, model_, config_.batch_size);
  place_.device->expect_inputs_in(memory_.batches);
  report({.ticket = Done::kReady, .lease = {.slot = slot, .incarnation = incarnation}});
}

Worker::~Worker() = default;

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
  const auto ticket_of = [](const Task& task) { return task.grant.ticket; };
  waiting_.insert(std::ranges::upper_bound(waiting_, grant.ticket, {}, ticket_of),
                  Task{grant, inputs_of(grant)});
}

// False: there was news before its parameters were there.
bool Worker::compute_next(const std::function<bool()>& news) {
  const Task task = waiting_.front();
  if (!mode_->begin(task.grant, news)) return false;
  waiting_.pop_front();
  report(compute(task));
  return true;
}

Done Worker::compute(const Task& task) {
  const Grant& grant = task.grant;
  empty_cache_after_border();
  const device::Inputs inputs = place_.device->load(grant.ticket, task.inputs);
  if (!waiting_.empty()) {
    place_.device->prefetch(waiting_.front().grant.ticket, waiting_.front().inputs);
  }
  Model::State state;
  if (carried_) state = begin_state(grant);
  const at::Tensor loss =
      model_.loss(inputs.x, inputs.target, inputs.dropout, carried_ ? &state : nullptr);
  loss.backward();
  if (carried_) {
    const auto [h, c] = place_.device->carry_out({state.h, state.c});
    state = {.h = h, .c = c};
  }
  const device::Gradient gradient = place_.device->gradient(loss, take_gradients());
  // Before the ticket can be seen to be done.
  if (carried_) carried_->write(grant.batch, gradient.finite() ? &state : nullptr);
  const Versions versions = mode_->commit(grant, gradient);
  note_device_use(gradient.device_seconds);
  return {.ticket = grant.ticket,
          .lease = grant.lease,
          .base_version = versions.base,
          .applied_version = versions.applied,
          .loss = gradient.loss};
}

Model::State Worker::begin_state(const Grant& grant) {
  const Model::State begin = carried_->read(grant.batch, tensor_of(grant, grant.fresh));
  const auto [h, c] = place_.device->carry_in({begin.h, begin.c});
  return {.h = h, .c = c};
}

device::Inputs Worker::inputs_of(const Grant& grant) const {
  const at::Tensor x = tensor_of(grant, grant.x);
  return {.x = x,
          .target = tensor_of(grant, grant.target),
          .dropout = dropout_factors(config_.dropout, config_.seed, grant.batch, x.size(1),
                                     config_.hidden_size)};
}

at::Tensor Worker::tensor_of(const Grant& grant, const shm::TensorHandle& handle) const {
  auto tensor = shm::to_tensor(arena_, handle);
  if (tensor) return *std::move(tensor);
  throw std::runtime_error(
      fmt::format("ticket {}: the grant's tensor handles are damaged", grant.ticket));
}

// Takes the gradients away from the parameters, so that the next backward
// stores its own instead of adding to these.
std::vector<at::Tensor> Worker::take_gradients() {
  std::vector<at::Tensor> gradients;
  for (const auto& [name, parameter] : model_.parameters()) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

// The tensors of the tickets before are gone, and those of this one not there yet.
void Worker::empty_cache_after_border() {
  const std::int64_t borders = memory_.counters->borders.load();
  if (!config_.empty_cache || std::exchange(borders_, borders) == borders) return;
  place_.device->empty_cache();
  ++memory_.device_use[slot_].emptied;
}

void Worker::note_device_use(double seconds) {
  const auto memory = place_.device->memory_use();
  if (!memory) return;
  DeviceUse& use = memory_.device_use[slot_];
  use.allocated.store(memory->allocated);
  use.reserved.store(memory->reserved);
  use.peak.store(memory->peak);
  use.seconds.fetch_add(seconds);
}

void Worker::report(const Done& done) {
  const auto status = done_.put(done, shm::after(1h));
  if (status == shm::QueueStatus::kTimeout)
    throw std::runtime_error("the parent took no results for an hour");
}

void run_worker(shm::WorkerContext& context) {
  keep_freed_memory();
  spdlog::info("worker {} incarnation {} starts", context.slot, context.incarnation);
  try {
    Worker(context.arena, context.slot, context.incarnation).run();
  } catch (const c10::Error& error) {
    spdlog::error("{}", error.what());  // with its stack trace
    throw std::runtime_error(what_torch_says(error));
  }
  spdlog::info("worker {} incarnation {} is done", context.slot, context.incarnation);
}

}  // namespace passel::train
