#include "passel/train/worker.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <stdexcept>
#include <vector>

#include "passel/train/dropout.h"
#include "passel/train/mode.h"
#include "passel/train/model.h"
#include "passel/train/training_memory.h"

namespace passel::train {
namespace {

using namespace std::chrono_literals;

// The activations of a step are freed and allocated again at the next one; keep
// their pages instead of handing them to the kernel and faulting them in again.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);
}

class Worker {
 public:
  explicit Worker(shm::WorkerContext& context)
      : context_(context),
        config_(TrainingMemory::read_config(context.arena)),
        model_(TrainingMemory::read_shape(context.arena), config_.hidden_size, config_.seed),
        memory_(TrainingMemory::open(context.arena, config_, model_)),
        mode_(make_mode(config_, memory_, model_, context.slot)),
        grants_(memory_.grants.at(context.slot).consumer()),
        done_(memory_.done.producer(context.slot)) {}

  void run() {
    report({.ticket = Done::kReady,
            .lease = {.slot = context_.slot, .incarnation = context_.incarnation}});
    while (take_grants()) {
      const Grant grant = waiting_.front();
      // While its parameters are waited for, the ticket that makes them may come, of a worker that
      // died: look again then.
      if (!mode_->begin(grant, [this] { return !grants_.empty(); })) continue;
      waiting_.pop_front();
      report(compute(grant));
    }
  }

 private:
  // Takes all that was granted, at least one ticket; the oldest comes first. False when there is
  // and will be nothing.
  bool take_grants() {
    Grant grant;
    while (waiting_.empty() || !grants_.empty()) {
      const auto status = grants_.get(grant, shm::after(1h));
      if (status == shm::QueueStatus::kClosed) return !waiting_.empty();
      if (status != shm::QueueStatus::kOk) continue;
      waiting_.insert(std::ranges::upper_bound(waiting_, grant.ticket, {}, &Grant::ticket), grant);
    }
    return true;
  }

  Done compute(const Grant& grant) {
    const auto x = shm::to_tensor(context_.arena, grant.x);
    const auto target = shm::to_tensor(context_.arena, grant.target);
    if (!x || !target) {
      throw std::runtime_error("ticket " + std::to_string(grant.ticket) +
                               ": the grant's tensor handles are damaged");
    }
    const at::Tensor dropout = dropout_factors(config_.dropout, config_.seed, grant.batch,
                                               x->size(1), config_.hidden_size);
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
  void collect_gradients() {
    gradients_.clear();
    for (const auto& [name, parameter] : model_.parameters()) {
      gradients_.push_back(parameter.grad().contiguous());
      parameter.mutable_grad().reset();
    }
  }

  void report(const Done& done) {
    const auto status = done_.put(done, shm::after(1h));
    if (status == shm::QueueStatus::kTimeout)
      throw std::runtime_error("the parent took no results for an hour");
  }

  shm::WorkerContext& context_;
  Config config_;
  Model model_;
  TrainingMemory memory_;
  std::unique_ptr<Mode> mode_;
  shm::SimpleQueue<Grant>::Consumer grants_;
  shm::SimpleQueue<Done>::Producer done_;
  std::deque<Grant> waiting_;  // by ticket
  std::vector<at::Tensor> gradients_;
};

}  // namespace

void run_worker(shm::WorkerContext& context) {
  keep_freed_memory();
  spdlog::info("worker {} incarnation {} starts", context.slot, context.incarnation);
  Worker(context).run();
  spdlog::info("worker {} incarnation {} is done", context.slot, context.incarnation);
}

}  // namespace passel::train
