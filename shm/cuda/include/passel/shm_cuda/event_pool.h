#pragma once

#include <driver_types.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm_cuda/device_status.h"
#include "passel/shm_cuda/event_mark.h"
#include "passel/shm_cuda/lost_ranges.h"

namespace passel::shm {

/// The shared half of one interprocess event.
struct alignas(64) EventRecord {
  cudaIpcEventHandle_t handle{};  ///< written by the parent before the first spawn
  std::uint64_t parents_event{};  ///< its cudaEvent_t, of use in the parent itself only
  // Counts of recordings, by the process that records.
  std::atomic<std::uint64_t> sequence{0};  ///< begun
  std::atomic<std::uint64_t> finished{0};  ///< known to be done
  LostRanges lost;                         ///< cut off by deaths; by the parent
};

/// The interprocess events of one device: a fixed number for each process, all created by the
/// parent at set-up and alive until it closes them, so that no event dies with the process that
/// recorded it and sending never creates one.
///
/// An event is recorded again when its last recording is done or, if all are under way, behind it
/// in the stream. So waiting for an event never means less than a mark of it, no call waits on the
/// host, and a mark that is known to be done needs no wait.
///
/// A process opens an event when it first needs it, and no event twice. Threads: one at a time.
class EventPool {
 public:
  /// Set-up, in the parent; `ordinal` is the device in this process.
  /// @throws Error, CudaError
  static EventPool create(Arena& arena, const std::string& name, int ordinal,
                          std::uint32_t processes, std::uint32_t events_per_process);
  /// @param process 0 is the parent, 1 + slot a worker
  /// @param parents this is the operating system process that created them
  static EventPool open(const Arena& arena, const std::string& name, int ordinal,
                        std::uint32_t processes, std::uint32_t process, bool parents);

  EventPool(EventPool&&) = default;
  EventPool& operator=(EventPool&&) = delete;
  ~EventPool() = default;

  /// Marks the moment after all that `stream` has been given so far.
  DeviceStatus record(cudaStream_t stream, EventMark& mark) noexcept;
  /// Lets what `stream` is given from now on run after the mark. kDamaged when it is none.
  DeviceStatus wait(EventMark mark, cudaStream_t stream) noexcept;
  /// Whether the marked work is over.
  bool over(EventMark mark) noexcept;
  /// The recorder died before its work was done, so what it was to write is not there. Never false
  /// for such a mark; true for one of work that was done only as LostRanges says.
  [[nodiscard]] bool lost(EventMark mark) const noexcept;

  /// For the parent, once `process` is provably dead: whoever waits for what the dead had under
  /// way goes on, and learns from lost() that it is not there.
  DeviceStatus settle(std::uint32_t process) noexcept;

  /// Closes what this process opened, in the parent all events. The device must be idle.
  void close() noexcept;

  [[nodiscard]] cudaError_t last_error() const noexcept { return last_error_; }

 private:
  EventPool(std::span<EventRecord> records, int ordinal, std::uint32_t processes,
            std::uint32_t process, bool parents);

  void create_events();
  DeviceStatus done(cudaError_t code) noexcept;
  cudaEvent_t event(std::uint32_t index) noexcept;
  /// The event to record next, and whether its last recording is done.
  DeviceStatus choose(std::uint32_t& index, bool& idle) noexcept;
  /// The event to wait for; nullptr with kOk when the mark is in the past.
  DeviceStatus pending(EventMark mark, cudaEvent_t& event) noexcept;

  std::span<EventRecord> records_;  // [processes * per_process]
  int ordinal_;
  std::uint32_t process_;
  std::uint32_t per_process_;
  bool parents_;  // this operating system process created the events
  std::uint32_t next_ = 0;
  std::vector<cudaEvent_t> events_;  // [records], nullptr: not opened yet
  cudaStream_t settling_ = nullptr;  // the parent's, for settle()
  cudaError_t last_error_ = cudaSuccess;
};

}  // namespace passel::shm
