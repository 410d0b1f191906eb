#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace passel::shm {

/// A GPU, or a part of one (MIG), as it is called in every process: its UUID. Ordinals differ
/// between processes with other CUDA_VISIBLE_DEVICES.
struct DeviceId {
  std::array<std::uint8_t, 16> bytes{};

  bool operator==(const DeviceId&) const = default;
};

/// As nvidia-smi writes it: GPU-8-4-4-4-12 hex digits.
std::string to_string(const DeviceId& id);

/// The identity of a device of this process.
/// @throws CudaError
DeviceId device_id(int ordinal);

/// The ordinal under which this process sees the device; empty when it does not see it.
/// @throws CudaError when the devices cannot be listed
std::optional<int> find_device(const DeviceId& id);

/// Makes a device the calling thread's current one, and the former one again at the end.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal) noexcept;
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_ = -1;  ///< -1: nothing to undo
};

}  // namespace passel::shm
