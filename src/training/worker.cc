#include "passel/train/worker.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "passel/train/hogwild.h"
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
        mode_(config_, memory_, context.slot),
        grants_(memory_.grants.at(context.slot).consumer()),
        done_(memory_.done.producer(context.slot)) {
    memory_.parameters.bind(model_.parameters());
  }

  void run() {
    report({.ticket = Done::kReady,
            .lease = {.slot = context_.slot, .incarnation = context_.incarnation}});
    Grant grant;
    for (;;) {
      const auto status = grants_.get(grant, shm::after(1h));
      if (status == shm::QueueStatus::kClosed) return;
      if (status == shm::QueueStatus::kOk) report(compute(grant));
    }
  }

 private:
  Done compute(const Grant& grant) {
    const auto x = shm::to_tensor(context_.arena, grant.x);
    const auto target = shm::to_tensor(context_.arena, grant.target);
    if (!x || !target) {
      throw std::runtime_error("ticket " + std::to_string(grant.ticket) +
                               ": the grant's tensor handles are damaged");
    }
    const std::int64_t base = mode_.begin();
    const at::Tensor loss = model_.loss(*x, *target);
    loss.backward();
    Done done{.ticket = grant.ticket,
              .lease = grant.lease,
              .base_version = base,
              .applied_version = Done::kRejected,
              .loss = loss.item<float>()};
    // A loss that is not finite would poison everybody's parameters; the parent
    // ends the run when it sees it.
    collect_gradients();
    if (std::isfinite(done.loss)) {
      done.applied_version = mode_.commit(gradients_, grant.lr).value_or(Done::kRejected);
    }
    return done;
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
  HogwildMode mode_;
  shm::SimpleQueue<Grant>::Consumer grants_;
  shm::SimpleQueue<Done>::Producer done_;
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
