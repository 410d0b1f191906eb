#pragma once

#include <driver_types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "passel/shm/chunk_table.h"
#include "passel/shm_cuda/device.h"

namespace passel::shm {

/// What processes know of a device arena. All but `open` is written before the first spawn.
struct DeviceRecord {
  DeviceId device;
  cudaIpcMemHandle_t handle{};
  std::uint64_t bytes = 0;
  std::uint64_t owner = 0;    ///< process_token() of the exporter
  std::uint64_t address = 0;  ///< in the exporter
  /// Bit p: process p has it open. Each process sets and clears its own bit, the parent that of a
  /// dead one.
  std::array<std::atomic<std::uint64_t>, ChunkRecord::kMaxProcesses / 64> open{};
};

/// Tells this operating system process from all others, also from those of other pid namespaces.
std::uint64_t process_token();

}  // namespace passel::shm
