#pragma once

#include <driver_types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "passel/shm/arena.h"
#include "passel/shm/chunk_ledger.h"
#include "passel/shm/deadline.h"
#include "passel/shm_cuda/device_buffer.h"
#include "passel/shm_cuda/device_status.h"

namespace passel::shm {

struct DeviceOptions {
  int device = 0;                      ///< its number in the parent
  std::uint32_t processes = 2;         ///< the parent, which is process 0, and its workers
  std::uint64_t region_bytes = 0;      ///< per process, for buffers; rounded up to whole pages
  std::uint64_t fixed_bytes = 0;       ///< for add(), all blocks together
  std::uint32_t chunks = 1024;         ///< per process: how many buffers it can have out at once
  std::uint32_t events = 64;           ///< per process: sends and releases under way at once
  bool cuda_ipc = true;                ///< false: stage through pinned memory of the host
  std::string name = "passel.cuda.0";  ///< tells the exchanges of several devices apart
};

/// The buffers that one process has on one device, and their way to other processes.
///
/// With CUDA IPC the parent owns one allocation on the device, each process allocates from its own
/// region of it, and what is sent is a handle: nothing is copied. Records and leases are in the
/// arena of the host, in the same ledger that CPU tensors have (ChunkLedger), so a SIGKILL of a
/// holder costs nothing but what it held, and that only until forget().
///
/// Without CUDA IPC the same calls stage: a sender copies to pinned shared memory and waits for the
/// copy, a receiver copies to memory of its own. Buffers are then copies, not the same memory.
///
/// Order on the device is kept by events, never by luck: a receiver's stream waits for the sender's
/// on every receive, also of a buffer that came before, and the memory of a buffer is written anew
/// only behind the work of all who had it.
///
/// CUDA is called neither by static destructors nor after close(). Threads: any. The arena must
/// outlive the exchange and its buffers.
class DeviceExchange : public std::enable_shared_from_this<DeviceExchange> {
 public:
  /// Set-up, in the parent. For a device that can share, see probe_ipc().
  /// @throws CudaError, Error
  static std::shared_ptr<DeviceExchange> create(Arena& arena, const DeviceOptions& options);
  /// In a worker, or for another end in the parent's own process, which opens nothing.
  /// @param process 0 is the parent, 1 + slot a worker
  /// @throws CudaError, Error
  static std::shared_ptr<DeviceExchange> open(const Arena& arena, std::uint32_t process,
                                              const std::string& name = "passel.cuda.0");

  /// As close(), unless the program is in exit(): then the memory goes with the process.
  virtual ~DeviceExchange() = default;
  DeviceExchange(const DeviceExchange&) = delete;
  DeviceExchange& operator=(const DeviceExchange&) = delete;

  /// A block for the whole run, the same memory for all processes. In the parent, before the first
  /// spawn. Throws Error when the fixed bytes are used up, or when buffers are staged.
  virtual Block add(const std::string& name, std::uint64_t bytes) = 0;
  /// Its address in this process. Throws Error when there is none.
  [[nodiscard]] virtual std::byte* block(const std::string& name) const = 0;

  /// A buffer, its bytes arbitrary, for work in `stream`, which waits for that of its former users.
  virtual DeviceStatus allocate(std::uint64_t bytes, cudaStream_t stream,
                                DeviceBuffer& buffer) noexcept = 0;
  /// The same; while others hold what is needed, waits for them.
  DeviceStatus allocate(std::uint64_t bytes, cudaStream_t stream, DeviceBuffer& buffer,
                        Deadline deadline) noexcept;

  /// For a message: a handle with a reference of its own, which is dropped with drop() once the
  /// message is in its ring and sent() was called, or will not be sent. The receiver waits for what
  /// `stream` has been given so far. DeviceQueue does all that.
  virtual DeviceStatus prepare(const DeviceBuffer& buffer, cudaStream_t stream,
                               DeviceHandle& handle) noexcept = 0;
  /// The entry `ticket` of `lane` (ChunkLedger::add_lane) carries this handle.
  void sent(std::uint32_t lane, std::uint64_t ticket, const DeviceHandle& handle);
  /// Takes a reference for a handle that is still in its ring; then receive() or drop() it.
  DeviceStatus claim(const DeviceHandle& handle) noexcept;
  void drop(const DeviceHandle& handle) noexcept;
  /// The buffer of a claimed handle, for work in `stream`, which waits for that of the sender.
  virtual DeviceStatus receive(const DeviceHandle& handle, cudaStream_t stream,
                               DeviceBuffer& buffer) noexcept = 0;
  /// kLost when the sender died before its work on a received buffer was done, which frees those
  /// who wait for it. Final once the caller's own work on the buffer is done, except that a buffer
  /// that is kept while many successors of its sender die in their work may become kLost: see
  /// LostRanges.
  [[nodiscard]] virtual DeviceStatus check(const DeviceBuffer& buffer) const noexcept = 0;

  /// For the parent, once `process` is provably dead and its queues have adopted what it sent:
  /// drops all that it held.
  virtual void forget(std::uint32_t process) noexcept = 0;

  /// Takes note of what others let go. True while something sent is still to be taken.
  bool collect() { return ledger_.collect(); }
  /// Bytes of this process's region that are in use by anybody; staged: those of its messages.
  [[nodiscard]] std::uint64_t bytes_in_use() const { return ledger_.bytes_in_use(); }

  /// Waits for this process's work on the device and closes what it opened; in the parent it frees
  /// the memory, after all workers have ended. Buffers may be dropped later, but not used.
  /// @throws Error in the parent while a worker has the memory open, CudaError
  virtual void close() = 0;

  [[nodiscard]] virtual bool staged() const noexcept = 0;
  /// The device's number in this process.
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Tells this exchange from others in handles.
  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint32_t process() const noexcept { return ledger_.process(); }
  [[nodiscard]] ChunkLedger& ledger() noexcept { return ledger_; }
  /// What this process sleeps on: free memory, messages, room in queues.
  [[nodiscard]] Doorbell& inbox() const noexcept {
    return ledger_.table().inboxes()[ledger_.process()];
  }
  /// Of the last kCuda.
  [[nodiscard]] cudaError_t last_error() const noexcept { return last_error_.load(); }

 protected:
  DeviceExchange(const Arena& arena, const std::string& name, std::uint32_t process, int device);

  /// The bytes that a handle names, where the regions lie; nullptr when they lie nowhere.
  [[nodiscard]] virtual std::byte* region_bytes(std::uint64_t offset,
                                                std::uint64_t bytes) const noexcept = 0;
  virtual void release(DeviceBuffer& buffer) noexcept = 0;
  /// For destructors.
  void close_unless_exiting() noexcept;

  DeviceStatus done(cudaError_t code) noexcept;
  static DeviceStatus status_of(ChunkLedger::Status status) noexcept;

  const Arena& arena_;
  std::mutex mutex_;  // guards what derived classes say; taken before the ledger's
  ChunkLedger ledger_;
  const int device_;
  const std::uint32_t id_;
  std::atomic<bool> closed_{false};

 private:
  friend class DeviceBuffer;

  std::atomic<cudaError_t> last_error_{cudaSuccess};
};

}  // namespace passel::shm
