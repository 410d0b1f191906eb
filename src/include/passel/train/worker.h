#pragma once

#include "passel/shm/worker.h"

namespace passel::train {

/// Name under which run_worker is registered as a spawn entry.
inline constexpr const char* kWorkerEntry = "passel::train::run_worker";

/// Main function of a training worker: takes grants until its queue closes,
/// computes each batch's gradient on the shared parameters and commits it.
/// Runs in a spawned process on its main thread.
void run_worker(shm::WorkerContext& context);

}  // namespace passel::train
