#include "passel/shm_cuda/device_status.h"

namespace passel::shm {

const char* to_string(DeviceStatus status) noexcept {
  switch (status) {
    case DeviceStatus::kOk:
      return "is fine";
    case DeviceStatus::kTimeout:
      return "timed out";
    case DeviceStatus::kClosed:
      return "is closed";
    case DeviceStatus::kLent:
      return "found no memory that others do not hold";
    case DeviceStatus::kOwn:
      return "found no memory that this process does not hold itself";
    case DeviceStatus::kTooLarge:
      return "asks for more than a process has";
    case DeviceStatus::kDamaged:
      return "makes no sense";
    case DeviceStatus::kOtherArena:
      return "is of another arena or device";
    case DeviceStatus::kStale:
      return "was given back since";
    case DeviceStatus::kLost:
      return "was never finished: its sender died";
    case DeviceStatus::kSystem:
      return "found the system without memory";
    case DeviceStatus::kCuda:
      return "was refused by the CUDA runtime";
  }
  return "is unknown";
}

}  // namespace passel::shm
