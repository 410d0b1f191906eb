#include "passel/shm_cuda/event_pool.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/device.h"

namespace passel::shm {
namespace {

// How many events a recording looks at for one that is idle.
constexpr std::uint32_t kLooks = 8;

std::string records_name(const std::string& name) {
  return name + ".events";
}

}  // namespace

EventPool::EventPool(std::span<EventRecord> records, int ordinal, std::uint32_t processes,
                     std::uint32_t process, bool parents)
    : records_(records),
      ordinal_(ordinal),
      process_(process),
      per_process_(static_cast<std::uint32_t>(records.size()) / processes),
      parents_(parents),
      events_(records.size()) {
  if (!parents) return;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    events_[i] = reinterpret_cast<cudaEvent_t>(records_[i].parents_event);
  }
}

EventPool EventPool::create(Arena& arena, const std::string& name, int ordinal,
                            std::uint32_t processes, std::uint32_t events_per_process) {
  const std::uint64_t count = std::uint64_t{processes} * events_per_process;
  if (processes == 0 || events_per_process == 0 || count > EventMark::kMaxEvents) {
    throw Error("create " + std::to_string(events_per_process) + " events for each of " +
                    std::to_string(processes) + " processes",
                0,
                "Expected at least one each, and at most " + std::to_string(EventMark::kMaxEvents) +
                    " together");
  }
  const auto records = arena.construct_array<EventRecord>(records_name(name), count);
  EventPool pool(records, ordinal, processes, 0, true);
  try {
    pool.create_events();
  } catch (const CudaError&) {
    pool.close();
    throw;
  }
  return pool;
}

void EventPool::create_events() {
  const DeviceGuard guard(ordinal_);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    check_cuda(
        cudaEventCreateWithFlags(&events_[i], cudaEventInterprocess | cudaEventDisableTiming),
        "create an interprocess event",
        "This device may have no interprocess events: see probe_ipc()");
    records_[i].parents_event = reinterpret_cast<std::uintptr_t>(events_[i]);
    check_cuda(cudaIpcGetEventHandle(&records_[i].handle, events_[i]), "export an event");
  }
  check_cuda(cudaStreamCreateWithFlags(&settling_, cudaStreamNonBlocking), "create a stream");
}

EventPool EventPool::open(const Arena& arena, const std::string& name, int ordinal,
                          std::uint32_t processes, std::uint32_t process, bool parents) {
  return {arena.get_array<EventRecord>(records_name(name)), ordinal, processes, process, parents};
}

DeviceStatus EventPool::done(cudaError_t code) noexcept {
  if (code == cudaSuccess) return DeviceStatus::kOk;
  cudaGetLastError();  // reported here, not once more by somebody's next check
  last_error_ = code;
  return DeviceStatus::kCuda;
}

cudaEvent_t EventPool::event(std::uint32_t index) noexcept {
  if (events_[index] == nullptr) {
    done(cudaIpcOpenEventHandle(&events_[index], records_[index].handle));
  }
  return events_[index];
}

DeviceStatus EventPool::choose(std::uint32_t& index, bool& idle) noexcept {
  const std::uint32_t looks = std::min(kLooks, per_process_);
  for (std::uint32_t i = 0; i < looks; ++i) {
    index = process_ * per_process_ + next_;
    next_ = next_ + 1 == per_process_ ? 0 : next_ + 1;
    if (event(index) == nullptr) return DeviceStatus::kCuda;
    const cudaError_t code = cudaEventQuery(event(index));
    idle = code == cudaSuccess;
    if (idle) return DeviceStatus::kOk;
    if (code != cudaErrorNotReady) return done(code);
    cudaGetLastError();  // no failure
  }
  return DeviceStatus::kOk;
}

DeviceStatus EventPool::record(cudaStream_t stream, EventMark& mark) noexcept {
  const DeviceGuard guard(ordinal_);
  std::uint32_t index = 0;
  bool idle = false;
  DeviceStatus status = choose(index, idle);
  if (status == DeviceStatus::kOk && !idle) {
    status = done(cudaStreamWaitEvent(stream, events_[index], 0));
  }
  if (status != DeviceStatus::kOk) return status;
  EventRecord& record = records_[index];
  // Relaxed: this process alone raises it.
  const std::uint64_t sequence = record.sequence.load(std::memory_order_relaxed);
  // Before the next recording: who finds it here need not wait for that. Release pairs with the
  // acquire in pending(), as what was marked is done.
  if (idle) record.finished.store(sequence, std::memory_order_release);
  record.sequence.store(sequence + 1, std::memory_order_release);  // likewise
  mark = EventMark::make(index, sequence + 1);
  return done(cudaEventRecord(events_[index], stream));
}

bool EventPool::lost(EventMark mark) const noexcept {
  return !mark.none() && mark.event() < records_.size() &&
         records_[mark.event()].lost.contains(mark.sequence());
}

DeviceStatus EventPool::pending(EventMark mark, cudaEvent_t& event) noexcept {
  event = nullptr;
  if (mark.event() >= records_.size() || mark.sequence() == 0) return DeviceStatus::kDamaged;
  if (lost(mark)) return DeviceStatus::kLost;
  const EventRecord& record = records_[mark.event()];
  // Acquire pairs with the releases in record().
  if (mark.sequence() > record.sequence.load(std::memory_order_acquire)) {
    return DeviceStatus::kDamaged;
  }
  if (mark.sequence() <= record.finished.load(std::memory_order_acquire)) return DeviceStatus::kOk;
  event = this->event(mark.event());
  return event == nullptr ? DeviceStatus::kCuda : DeviceStatus::kOk;
}

DeviceStatus EventPool::wait(EventMark mark, cudaStream_t stream) noexcept {
  const DeviceGuard guard(ordinal_);
  cudaEvent_t event = nullptr;
  const DeviceStatus status = pending(mark, event);
  return event == nullptr ? status : done(cudaStreamWaitEvent(stream, event, 0));
}

bool EventPool::over(EventMark mark) noexcept {
  if (mark.none()) return true;
  const DeviceGuard guard(ordinal_);
  cudaEvent_t event = nullptr;
  const DeviceStatus status = pending(mark, event);
  if (event == nullptr) return status != DeviceStatus::kCuda;
  const cudaError_t code = cudaEventQuery(event);
  if (code == cudaErrorNotReady) cudaGetLastError();  // no failure
  return code == cudaSuccess;
}

DeviceStatus EventPool::settle(std::uint32_t process) noexcept {
  const DeviceGuard guard(ordinal_);
  DeviceStatus result = DeviceStatus::kOk;
  for (std::uint32_t i = process * per_process_; i < (process + 1) * per_process_; ++i) {
    EventRecord& record = records_[i];
    const cudaError_t code = cudaEventQuery(events_[i]);
    if (code == cudaSuccess) continue;
    if (code != cudaErrorNotReady) {
      result = done(code);
      continue;
    }
    cudaGetLastError();
    // Before the recording that lets the waiting go on: they must be able to find it here.
    // Relaxed: their writer is dead.
    record.lost.add(record.finished.load(std::memory_order_relaxed),
                    record.sequence.load(std::memory_order_relaxed));
    const DeviceStatus recorded = done(cudaEventRecord(events_[i], settling_));
    if (recorded != DeviceStatus::kOk) result = recorded;
  }
  return result;
}

void EventPool::close() noexcept {
  const DeviceGuard guard(ordinal_);
  if (settling_ != nullptr) cudaStreamDestroy(settling_);
  settling_ = nullptr;
  for (cudaEvent_t& event : events_) {
    // Those of the parent are the parent's: another end in its process only knows them.
    if (event != nullptr && (!parents_ || process_ == 0)) cudaEventDestroy(event);
    event = nullptr;
  }
}

}  // namespace passel::shm
