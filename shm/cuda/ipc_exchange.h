#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "passel/shm_cuda/device_arena.h"
#include "passel/shm_cuda/device_exchange.h"
#include "passel/shm_cuda/event_pool.h"

namespace passel::shm {

/// Buffers in the parent's allocation on the device, sent as handles.
///
/// `marks` is the shared table of last uses: for each chunk and each process the moment at which
/// that process's last work on it is done. A process writes its own column, before it lets go of
/// the chunk; the owner of the region reads all of them once nobody holds it, and clears them.
class IpcExchange final : public DeviceExchange {
 public:
  static std::shared_ptr<IpcExchange> create(Arena& arena, const DeviceOptions& options);
  static std::shared_ptr<IpcExchange> open(const Arena& arena, std::uint32_t process,
                                           const std::string& name);

  IpcExchange(const Arena& arena, const std::string& name, std::uint32_t process,
              DeviceArena device, EventPool events);
  ~IpcExchange() override;

  Block add(const std::string& name, std::uint64_t bytes) override;
  [[nodiscard]] std::byte* block(const std::string& name) const override;
  DeviceStatus allocate(std::uint64_t bytes, cudaStream_t stream,
                        DeviceBuffer& buffer) noexcept override;
  DeviceStatus prepare(const DeviceBuffer& buffer, cudaStream_t stream,
                       DeviceHandle& handle) noexcept override;
  DeviceStatus receive(const DeviceHandle& handle, cudaStream_t stream,
                       DeviceBuffer& buffer) noexcept override;
  [[nodiscard]] DeviceStatus check(const DeviceBuffer& buffer) const noexcept override;
  void forget(std::uint32_t process) noexcept override;
  void close() override;
  [[nodiscard]] bool staged() const noexcept override { return false; }

 protected:
  [[nodiscard]] std::byte* region_bytes(std::uint64_t offset,
                                        std::uint64_t bytes) const noexcept override;
  void release(DeviceBuffer& buffer) noexcept override;

 private:
  struct Range {
    std::uint64_t offset;
    std::uint64_t bytes;
    bool operator==(const Range&) const = default;
    [[nodiscard]] bool overlaps(const Range& other) const noexcept {
      return offset < other.offset + other.bytes && other.offset < offset + bytes;
    }
    [[nodiscard]] Range hull(const Range& other) const noexcept {
      const std::uint64_t first = std::min(offset, other.offset);
      return {first, std::max(offset + bytes, other.offset + other.bytes) - first};
    }
  };

  [[nodiscard]] std::span<std::atomic<std::uint64_t>> marks(std::uint32_t chunk) const noexcept;
  /// Waits, in `stream`, for whatever was the last to use the bytes of a chunk just allocated.
  DeviceStatus await_former_users(std::uint32_t chunk, cudaStream_t stream) noexcept;
  DeviceStatus await_marks(std::uint32_t chunk, cudaStream_t stream) noexcept;
  [[nodiscard]] bool all_over(std::uint32_t chunk) noexcept;
  /// Notes that this process uses a chunk in `stream`, besides its earlier uses of it.
  DeviceStatus mark_use(std::uint32_t chunk, cudaStream_t stream, EventMark& mark) noexcept;
  DeviceStatus from_pool(DeviceStatus status) noexcept;

  Arena* layout_ = nullptr;  // the parent's until the first spawn, for add()
  const std::string name_;
  DeviceArena memory_;
  EventPool events_;
  std::span<std::atomic<std::uint64_t>> marks_;  // [chunks][processes]
  struct Former {
    Range last;  ///< where the chunk lay when it was last used
    Range all;   ///< what its marks tell of
  };
  std::vector<Former> former_;  // [chunks of this region]
  std::uint64_t fixed_used_ = 0;
};

}  // namespace passel::shm
