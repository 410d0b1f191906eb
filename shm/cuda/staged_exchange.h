#pragma once

#include <memory>

#include "passel/shm_cuda/device_exchange.h"
#include "passel/shm_cuda/pinned_memory.h"

namespace passel::shm {

/// Buffers in memory of each process alone; what is sent is copied through regions of the arena,
/// which every process has pinned once.
class StagedExchange final : public DeviceExchange {
 public:
  static std::shared_ptr<StagedExchange> create(Arena& arena, const DeviceOptions& options);
  static std::shared_ptr<StagedExchange> open(const Arena& arena, std::uint32_t process,
                                              const std::string& name);

  StagedExchange(const Arena& arena, const std::string& name, std::uint32_t process, int device);
  ~StagedExchange() override;

  Block add(const std::string& name, std::uint64_t bytes) override;
  [[nodiscard]] std::byte* block(const std::string& name) const override;
  DeviceStatus allocate(std::uint64_t bytes, cudaStream_t stream,
                        DeviceBuffer& buffer) noexcept override;
  /// Waits until the copy is done: without interprocess events only this process knows when.
  DeviceStatus prepare(const DeviceBuffer& buffer, cudaStream_t stream,
                       DeviceHandle& handle) noexcept override;
  DeviceStatus receive(const DeviceHandle& handle, cudaStream_t stream,
                       DeviceBuffer& buffer) noexcept override;
  [[nodiscard]] DeviceStatus check(const DeviceBuffer& buffer) const noexcept override;
  void forget(std::uint32_t process) noexcept override;
  void close() override;
  [[nodiscard]] bool staged() const noexcept override { return true; }

 protected:
  [[nodiscard]] std::byte* region_bytes(std::uint64_t offset,
                                        std::uint64_t bytes) const noexcept override;
  void release(DeviceBuffer& buffer) noexcept override;

 private:
  /// Lets go of a message once the copy out of it is done.
  DeviceStatus release_behind(std::uint32_t chunk, cudaStream_t stream) noexcept;

  PinnedMemory pinned_;
};

}  // namespace passel::shm
