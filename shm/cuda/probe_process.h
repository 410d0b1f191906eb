#pragma once

#include <driver_types.h>

#include <cstdint>

#include "passel/shm_cuda/device.h"

namespace passel::shm {

inline constexpr std::uint64_t kProbeValue = 0x7061'7373'656c'6f6b;

/// What a probe's second process is to open, and what came of it.
struct ProbeRecord {
  DeviceId device;
  cudaIpcMemHandle_t memory;
  cudaIpcEventHandle_t event;
  cudaError_t result;
};

/// Spawns a process that opens both and reads kProbeValue through them. cudaErrorUnknown when it
/// dies or hangs.
/// @throws Error when it cannot be started
cudaError_t open_in_second_process(const ProbeRecord& record);

}  // namespace passel::shm
