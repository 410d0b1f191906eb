// Events: two counters that all processes see, recordings begun and recordings done.
#include <cuda_runtime_api.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>
#include <set>

#include "stream.h"
#include "world.h"

namespace passel::fake_cuda {
namespace {

struct Event {
  std::uint32_t index;
  std::uint32_t generation;
  bool opened;  ///< from a handle of another process

  [[nodiscard]] EventState& state() const { return world().events[index]; }
};

struct Handle {
  std::uint32_t magic;
  std::uint32_t index;
  std::uint32_t generation;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcEventHandle_t));
constexpr std::uint32_t kMagic = 0x65766e74;

std::mutex local_mutex;
std::set<Event*>& local_events() {
  static auto* const events = new std::set<Event*>;
  return *events;
}

/// The event behind a handle of this process, if it still is one.
Event* find(cudaEvent_t handle) {
  auto* const event = reinterpret_cast<Event*>(handle);
  const std::lock_guard lock(local_mutex);
  if (!local_events().contains(event)) return nullptr;
  const EventState& state = event->state();
  return state.owner != 0 && state.generation == event->generation ? event : nullptr;
}

cudaEvent_t add(Event event) {
  auto* const made = new Event(event);
  const std::lock_guard lock(local_mutex);
  local_events().insert(made);
  return reinterpret_cast<cudaEvent_t>(made);
}

bool reached(std::uint32_t completed, std::uint32_t target) {
  return static_cast<std::int32_t>(completed - target) >= 0;
}

std::uint32_t* word(std::atomic<std::uint32_t>& atomic) {
  return reinterpret_cast<std::uint32_t*>(&atomic);
}

/// On a stream's thread, or in cudaEventSynchronize.
void wait_until(EventState& state, std::uint32_t generation, std::uint32_t target) {
  for (;;) {
    const std::uint32_t completed = state.completed.load();
    if (reached(completed, target)) return;
    if (state.owner == 0 || state.generation != generation) {
      report_violation("an event was destroyed while somebody waited for it");
      return;
    }
    const timespec slice{0, 50'000'000};
    ::syscall(SYS_futex, word(state.completed), FUTEX_WAIT, completed, &slice, nullptr, 0);
  }
}

void complete(EventState& state, std::uint32_t number) {
  state.completed_at.store(std::chrono::steady_clock::now().time_since_epoch() /
                           std::chrono::nanoseconds(1));
  std::uint32_t completed = state.completed.load();
  while (!reached(completed, number) && !state.completed.compare_exchange_weak(completed, number)) {
  }
  ::syscall(SYS_futex, word(state.completed), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool opened_elsewhere(const Event& event) {
  return std::ranges::any_of(world().event_imports, [&](const Import& import) {
    return import.process != 0 && import.index == event.index &&
           import.generation == event.generation;
  });
}

}  // namespace
}  // namespace passel::fake_cuda

using namespace passel::fake_cuda;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  if (const auto code = enter("cudaEventCreateWithFlags")) return code;
  if ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0) {
    return fails(cudaErrorInvalidValue);
  }
  const WorldLock lock;
  bury_dead();
  for (std::uint32_t i = 0; i < world().events.size(); ++i) {
    EventState& state = world().events[i];
    if (state.owner != 0) continue;
    state.device = current_device();
    state.flags = flags;
    state.recorded.store(0);
    state.completed.store(0);
    ++state.generation;
    state.owner = ::getpid();
    *handle = add({i, state.generation, false});
    return cudaSuccess;
  }
  return fails(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  if (const auto code = enter("cudaEventDestroy")) return code;
  Event* const event = find(handle);
  if (event == nullptr) return fails(cudaErrorInvalidResourceHandle);
  const WorldLock lock;
  if (event->opened) {
    for (Import& import : world().event_imports) {
      if (import.process == ::getpid() && import.index == event->index) import = {};
    }
  } else {
    bury_dead();
    if (opened_elsewhere(*event)) report_violation("an event was destroyed under an open handle");
    event->state().owner = 0;
  }
  const std::lock_guard local(local_mutex);
  local_events().erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event_handle) {
  if (const auto code = enter("cudaIpcGetEventHandle")) return code;
  const Event* const event = find(event_handle);
  if (event == nullptr || event->opened || (event->state().flags & cudaEventInterprocess) == 0) {
    return fails(cudaErrorInvalidResourceHandle);
  }
  const Handle made{kMagic, event->index, event->generation};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &made, sizeof(made));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* opened, cudaIpcEventHandle_t handle) {
  if (const auto code = enter("cudaIpcOpenEventHandle")) return code;
  Handle given{};
  std::memcpy(&given, &handle, sizeof(given));
  const WorldLock lock;
  bury_dead();
  if (given.magic != kMagic || given.index >= world().events.size()) {
    return fails(cudaErrorInvalidValue);
  }
  const EventState& state = world().events[given.index];
  if (state.owner == 0 || state.generation != given.generation) {
    return fails(cudaErrorInvalidResourceHandle);
  }
  if (state.owner == ::getpid()) return fails(cudaErrorDeviceUninitialized);
  if (state.device != current_device()) return fails(cudaErrorInvalidDevice);
  Import* place = nullptr;
  for (Import& import : world().event_imports) {
    if (import.process == ::getpid() && import.index == given.index) {
      report_violation("a process opened an event twice");
    }
    if (import.process == 0 && place == nullptr) place = &import;
  }
  if (place == nullptr) return fails(cudaErrorMemoryAllocation);
  *place = {::getpid(), given.index, given.generation};
  *opened = add({given.index, given.generation, true});
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  if (const auto code = enter("cudaEventRecord")) return code;
  const Event* const event = find(handle);
  Stream* const stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr || event->state().device != stream->device()) {
    return fails(cudaErrorInvalidResourceHandle);
  }
  EventState& state = event->state();
  const std::uint32_t number = state.recorded.fetch_add(1) + 1;
  stream->push([&state, number] { complete(state, number); });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  if (const auto code = enter("cudaEventQuery")) return code;
  const Event* const event = find(handle);
  if (event == nullptr) return fails(cudaErrorInvalidResourceHandle);
  EventState& state = event->state();
  const std::uint32_t recorded = state.recorded.load();
  return reached(state.completed.load(), recorded) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  if (const auto code = enter("cudaEventSynchronize")) return code;
  const Event* const event = find(handle);
  if (event == nullptr) return fails(cudaErrorInvalidResourceHandle);
  wait_until(event->state(), event->generation, event->state().recorded.load());
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  if (const auto code = enter("cudaEventElapsedTime")) return code;
  std::int64_t at[2] = {};
  for (const int i : {0, 1}) {
    const Event* const event = find(i == 0 ? start_handle : end_handle);
    if (event == nullptr || (event->state().flags & cudaEventDisableTiming) != 0 ||
        event->state().recorded.load() == 0) {
      return fails(cudaErrorInvalidResourceHandle);
    }
    const EventState& state = event->state();
    if (!reached(state.completed.load(), state.recorded.load())) return cudaErrorNotReady;
    at[i] = state.completed_at.load();
  }
  *ms = static_cast<float>(at[1] - at[0]) / 1e6F;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle,
                                unsigned /*flags*/) {
  if (const auto code = enter("cudaStreamWaitEvent")) return code;
  const Event* const event = find(handle);
  Stream* const stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  EventState& state = event->state();
  const std::uint32_t target = state.recorded.load();
  if (target == 0) report_violation("a stream waits for an event that was never recorded");
  if (world().ignore_waits.load() != 0) return cudaSuccess;
  stream->push(
      [&state, generation = event->generation, target] { wait_until(state, generation, target); });
  return cudaSuccess;
}

}  // extern "C"
