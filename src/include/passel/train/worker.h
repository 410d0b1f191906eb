#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "passel/device/gpus.h"
#include "passel/shm/worker.h"
#include "passel/train/carried_state.h"
#include "passel/train/mode.h"
#include "passel/train/model.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Name under which run_worker is registered as a spawn entry.
inline constexpr const char* kWorkerEntry = "passel::train::run_worker";

/// Main function of a training worker: takes grants until its queue closes,
/// computes each batch's gradient on the shared parameters and commits it.
/// Runs in a spawned process on its main thread.
void run_worker(shm::WorkerContext& context);

/// What a training worker does, in a process of its own or, where one process computes what all
/// workers would, in turn with the others. For one thread.
class Worker {
 public:
  /// Opens the run's memory in `arena`, which must outlive it, and reports that it can take grants.
  Worker(const shm::Arena& arena, std::uint32_t slot, std::uint32_t incarnation);
  ~Worker();

  /// Computes what is granted, until the queue of grants closes.
  void run();

  /// Computes one ticket without waiting for anything. False: none is granted, or the parameters
  /// it begins with come of a ticket that is not computed yet.
  bool try_step();

 private:
  /// A ticket that was granted.
  struct Task {
    Grant grant;
    device::Inputs inputs;
  };

  bool take_grants();
  void keep(const Grant& grant);
  bool compute_next(const std::function<bool()>& news);
  Done compute(const Task& task);
  Model::State begin_state(const Grant& grant);
  device::Inputs inputs_of(const Grant& grant) const;
  at::Tensor tensor_of(const Grant& grant, const shm::TensorHandle& handle) const;
  std::vector<at::Tensor> take_gradients();
  void empty_cache_after_border();
  void note_device_use(double seconds);
  void report(const Done& done);

  const shm::Arena& arena_;
  std::uint32_t slot_;
  Config config_;
  device::WorkerPlace place_;  // before the model: torch is to know of it
  Model model_;
  TrainingMemory memory_;
  std::unique_ptr<Mode> mode_;
  std::optional<CarriedState> carried_;  // of a stateful run
  shm::SimpleQueue<Grant>::Consumer grants_;
  shm::SimpleQueue<Done>::Producer done_;
  std::deque<Task> waiting_;  // by ticket
  std::int64_t borders_;      // that it knows of
};

}  // namespace passel::train
