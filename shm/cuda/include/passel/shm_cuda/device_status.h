#pragma once

#include <cstdint>

namespace passel::shm {

enum class DeviceStatus : std::uint8_t {
  kOk,
  kTimeout,     ///< no entry, no room in the queue, or no free memory until the deadline
  kClosed,      ///< the queue or the exchange is closed
  kLent,        ///< no memory now; others hold buffers of this process, so waiting may help
  kOwn,         ///< no memory, and this process itself holds all of it
  kTooLarge,    ///< more than the region of a process has
  kDamaged,     ///< a handle whose range, chunk or event makes no sense
  kOtherArena,  ///< a handle of another arena or device
  kStale,       ///< a handle whose buffer was given back since
  kLost,        ///< the sender died before its work on the buffer was done
  kSystem,      ///< the system has no memory left
  kCuda,        ///< the runtime refused a call: see last_error()
};
const char* to_string(DeviceStatus status) noexcept;

}  // namespace passel::shm
