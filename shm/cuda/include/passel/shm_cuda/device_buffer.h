#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "passel/shm/chunk_ledger.h"
#include "passel/shm_cuda/event_mark.h"

namespace passel::shm {

class DeviceExchange;

/// A buffer on a device as it travels through a queue: no pointer, so it means the same in every
/// process, and no ownership. What it names is checked by DeviceExchange::claim().
struct DeviceHandle {
  std::uint64_t offset = 0;  ///< bytes from the start of the memory that the regions lie in
  std::uint64_t bytes = 0;
  EventMark event;             ///< the sender's work on the buffer is done; none when it was staged
  ChunkHandle chunk{0, 0};     ///< what it lies in
  std::uint32_t exchange = 0;  ///< DeviceExchange::id()
};
static_assert(std::is_trivially_copyable_v<DeviceHandle>);

/// One process's hold of a buffer on a device. While any process holds it, nobody gets its memory;
/// the next one who does waits, on the device, for the work of all former holders.
///
/// Letting go of it marks the moment in stream(): whatever uses the buffer must have been given to
/// that stream, or to one that stream() waits for. Move-only; any thread, one at a time.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  /// Lets go of it now.
  void reset() noexcept;

  /// On the device, aligned to 128 bytes.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }
  /// The stream of its last use, to begin with the one it was allocated for or received on.
  void set_stream(cudaStream_t stream) noexcept { stream_ = stream; }
  [[nodiscard]] explicit operator bool() const noexcept { return exchange_ != nullptr; }

 private:
  friend class DeviceExchange;
  friend class IpcExchange;
  friend class StagedExchange;

  std::shared_ptr<DeviceExchange> exchange_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  cudaStream_t stream_ = nullptr;
  std::uint32_t chunk_ = 0;  ///< without meaning where buffers are staged
  EventMark received_;       ///< what it waited for when it was received
};

}  // namespace passel::shm
