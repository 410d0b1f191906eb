#pragma once

#include <driver_types.h>

#include <cstdint>
#include <string>

namespace passel::shm {

/// What CUDA's sharing between processes comes to on this machine.
enum class IpcVerdict : std::uint8_t {
  kAvailable,
  kUnsupported,  ///< the platform has no CUDA IPC: WSL2, Tegra, or the device says so
  kRefused,      ///< the device says it has it, but an export or its opening failed
  kNoDriver,
  kOldDriver,  ///< older than the runtime that this program was built with
  kNoDevice,   ///< none, or CUDA_VISIBLE_DEVICES hides all
  kBusy,       ///< all devices are in use or in exclusive mode
  kBroken,     ///< any other failure of the runtime
};
const char* to_string(IpcVerdict verdict) noexcept;

struct IpcProbe {
  IpcVerdict verdict;
  cudaError_t code;  ///< of the call that decided it; cudaSuccess where no call did
  std::string text;  ///< a sentence for people, with what to do

  /// Buffers can be shared on the device.
  [[nodiscard]] bool shares() const noexcept { return verdict == IpcVerdict::kAvailable; }
  /// There is a device to compute on, so that staging through the host is possible.
  [[nodiscard]] bool computes() const noexcept { return verdict <= IpcVerdict::kRefused; }
};

/// Tries what sharing on device `ordinal` needs: an exported allocation and an interprocess event,
/// and with `second_process` a spawned process that opens both and reads through them. Only that
/// finds out about containers whose processes may not see each other's memory. Takes about as long
/// as it takes to start CUDA. The first call of the runtime, so that it is the one that fails.
///
/// Without shm::init() in main there is no second process.
///
/// From the parent only, before the first spawn. Throws Error when the process cannot be started.
IpcProbe probe_ipc(int ordinal, bool second_process = true);

}  // namespace passel::shm
