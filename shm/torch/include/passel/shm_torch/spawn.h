#pragma once

#include <memory>
#include <utility>

#include "passel/shm/process_context.h"
#include "passel/shm_torch/shared.h"
#include "passel/shm_torch/worker.h"

namespace passel::shm {

/// Starts shared.workers() processes that run `entry`, like spawn() of
/// torch.multiprocessing, and returns at once. `entry` must be registered with
/// PASSEL_ENTRY; what it returns is ProcessContext::result(). From now on waits in
/// the queues of this process end with an exception when the run has failed.
/// Dropping the result kills the workers and closes all queues. It and `shared` may be dropped in
/// any order. Once per Shared.
/// @throws Error
[[nodiscard]] std::shared_ptr<ProcessContext> spawn_entry(const void* entry, Shared& shared,
                                                          SpawnSettings settings);

template <class R>
[[nodiscard]] std::shared_ptr<ProcessContext> spawn(R (*entry)(Worker&), Shared& shared,
                                                    SpawnSettings settings = {}) {
  return spawn_entry(entry_key(entry), shared, std::move(settings));
}

}  // namespace passel::shm
