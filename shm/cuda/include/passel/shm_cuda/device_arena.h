#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "passel/shm/arena.h"
#include "passel/shm_cuda/device.h"

namespace passel::shm {

struct DeviceRecord;  // what the parent tells of the allocation, in the arena

/// One plain allocation on one device, owned by the parent, exported once, and opened once by each
/// process that uses it. Which device it is on says its UUID. In the process that allocated it
/// nothing is opened: a handle is invalid in its exporter.
///
/// Threads: set-up and close() from one; the rest from any.
class DeviceArena {
 public:
  /// Set-up, in the parent: allocates `bytes` on device `ordinal` and exports them.
  /// @param name tells several device arenas of one arena apart
  /// @throws CudaError naming the bytes asked for and those free on the device; Error
  static DeviceArena create(Arena& arena, const std::string& name, int ordinal,
                            std::uint64_t bytes);
  /// @param process 0 is the parent, 1 + slot a worker
  /// @throws Error naming the device when this process does not see it; CudaError
  static DeviceArena open(const Arena& arena, const std::string& name, std::uint32_t process);

  DeviceArena(DeviceArena&& other) noexcept;
  DeviceArena& operator=(DeviceArena&&) = delete;
  /// Leaves the memory to close(), or to the end of the process: no call of CUDA.
  ~DeviceArena() = default;

  /// Closes the mapping; in the parent frees the memory. The device must be idle.
  /// @throws Error in the parent while a process still has it open: what happened then is undefined
  void close();

  /// For the parent, once `process` is provably dead: the system has closed what it had open.
  void forget(std::uint32_t process) noexcept;

  /// On the device. nullptr once closed.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// The address of a range that came from elsewhere; nullptr when it does not lie in the arena.
  [[nodiscard]] std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return data_ != nullptr && offset <= size_ && bytes <= size_ - offset ? data_ + offset
                                                                          : nullptr;
  }
  /// The device's number in this process.
  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  /// Whether this operating system process allocated it.
  [[nodiscard]] bool here() const noexcept;

 private:
  DeviceArena(DeviceRecord& record, int ordinal, std::byte* data, std::uint32_t process) noexcept;

  DeviceRecord* record_;
  int ordinal_;
  std::byte* data_;
  std::uint64_t size_;
  std::uint32_t process_;
};

}  // namespace passel::shm
