#pragma once

/// All of Passel's counterpart of torch.multiprocessing, under short names.

#include "passel/shm_torch/shared.h"
#include "passel/shm_torch/spawn.h"
#include "passel/shm_torch/worker.h"

namespace passel {

using shm::after;
using shm::Deadline;
using shm::Error;
using shm::exposed_bytes;
using shm::init;
using shm::Interrupted;
using shm::kGiB;
using shm::kMiB;
using shm::NamedTensor;
using shm::OnDeath;
using shm::ProcessContext;
using shm::QueueStatus;
using shm::ReadBy;
using shm::Record;
using shm::RecordQueue;
using shm::Shared;
using shm::SharedSettings;
using shm::SharingLost;
using shm::spawn;
using shm::SpawnSettings;
using shm::Stopped;
using shm::TensorQueue;
using shm::wait_any;
using shm::Worker;
using shm::WorkersFailed;

}  // namespace passel
