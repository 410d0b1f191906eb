#include "probe_process.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <variant>
#include <vector>

#include "passel/shm/deadline.h"
#include "passel/shm/doorbell.h"
#include "passel/shm/supervisor.h"
#include "passel/shm/worker.h"

namespace passel::shm {
namespace {

constexpr const char* kRecord = "probe";
constexpr std::chrono::seconds kPatience{60};  // starting CUDA on a machine with many devices

cudaError_t read_value(const ProbeRecord& record) {
  void* memory = nullptr;
  cudaError_t code = cudaIpcOpenMemHandle(&memory, record.memory, cudaIpcMemLazyEnablePeerAccess);
  if (code != cudaSuccess) return code;
  cudaEvent_t event = nullptr;
  code = cudaIpcOpenEventHandle(&event, record.event);
  if (code != cudaSuccess) return code;
  std::uint64_t value = 0;
  code = cudaStreamWaitEvent(nullptr, event, 0);
  if (code == cudaSuccess) {
    code = cudaMemcpyAsync(&value, memory, sizeof(value), cudaMemcpyDeviceToHost, nullptr);
  }
  if (code == cudaSuccess) code = cudaStreamSynchronize(nullptr);
  if (code == cudaSuccess && value != kProbeValue) code = cudaErrorUnknown;
  cudaEventDestroy(event);
  cudaIpcCloseMemHandle(memory);
  return code;
}

void probe_opens(WorkerContext& context) {
  auto& record = *context.arena.get<ProbeRecord>(kRecord);
  const auto ordinal = find_device(record.device);
  if (!ordinal) {
    record.result = cudaErrorInvalidDevice;
    return;
  }
  const DeviceGuard guard(*ordinal);
  record.result = read_value(record);
}

[[maybe_unused]] const bool kRegistered = [] {
  register_entry("passel.cuda.probe", make_entry(&probe_opens));
  return true;
}();

}  // namespace

cudaError_t open_in_second_process(const ProbeRecord& record) {
  Arena arena = Arena::create("probe", std::size_t{64} << 10);
  auto* const shared = arena.construct<ProbeRecord>(kRecord);
  *shared = record;
  Doorbell bell;
  Supervisor supervisor(arena, {.entry = "passel.cuda.probe", .on_event = [&] { bell.ring(); }});
  supervisor.spawn(0);
  const Deadline deadline = after(kPatience);
  std::vector<int> signals;
  for (bool ended = false; !ended;) {
    std::optional<Event> event;
    if (!bell.wait([&] { return (event = supervisor.poll()).has_value(); }, deadline)) break;
    if (const auto* const signal = std::get_if<Signal>(&*event)) {
      signals.push_back(signal->number);
    } else {
      ended = true;
      if (std::get<WorkerExit>(*event).failed()) shared->result = cudaErrorUnknown;
    }
  }
  // They were meant for the run that follows, whose supervisor reads them.
  for (const int signal : signals) ::kill(::getpid(), signal);
  return shared->result;
}

}  // namespace passel::shm
