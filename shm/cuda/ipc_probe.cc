#include "passel/shm_cuda/ipc_probe.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <filesystem>

#include "passel/shm/worker.h"
#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/device.h"
#include "probe_process.h"

namespace passel::shm {
namespace {

IpcVerdict verdict_of_start(cudaError_t code, int driver) {
  switch (code) {
    case cudaErrorInsufficientDriver:
      return driver == 0 ? IpcVerdict::kNoDriver : IpcVerdict::kOldDriver;
    case cudaErrorStubLibrary:
      return IpcVerdict::kNoDriver;
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return IpcVerdict::kOldDriver;
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return IpcVerdict::kNoDevice;
    case cudaErrorDevicesUnavailable:
      return IpcVerdict::kBusy;
    default:
      return IpcVerdict::kBroken;
  }
}

IpcVerdict verdict_of_export(cudaError_t code) {
  return code == cudaErrorNotSupported ? IpcVerdict::kUnsupported : IpcVerdict::kRefused;
}

std::string platform_text(int ordinal) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, ordinal) == cudaSuccess && properties.integrated != 0) {
    return "The device shares its memory with the host (Tegra)";
  }
  if (std::filesystem::exists("/dev/dxg")) return "This is WSL2";
  return "The device says that it has no CUDA IPC";
}

std::string advice(IpcVerdict verdict, int ordinal) {
  switch (verdict) {
    case IpcVerdict::kAvailable:
      return "Processes share memory and events of the device";
    case IpcVerdict::kUnsupported:
      return platform_text(ordinal) + ": buffers are staged through the host";
    case IpcVerdict::kRefused:
      return "CUDA IPC is refused here (containers that hide processes from each other do that, "
             "and some MIG set-ups): buffers are staged through the host";
    case IpcVerdict::kNoDriver:
      return "There is no NVIDIA driver: install one, or train on the CPU";
    case IpcVerdict::kOldDriver:
      return "The driver is older than this program's CUDA runtime: update it";
    case IpcVerdict::kNoDevice:
      return "There is no such GPU: look at nvidia-smi and at CUDA_VISIBLE_DEVICES";
    case IpcVerdict::kBusy:
      return "The GPU is taken, or in exclusive mode, which allows one process: set the default "
             "mode (nvidia-smi -c 0), or start MPS";
    case IpcVerdict::kBroken:
      break;
  }
  return "The CUDA runtime does not work here";
}

IpcProbe result(IpcVerdict verdict, cudaError_t code, int ordinal) {
  std::string text = advice(verdict, ordinal);
  if (code != cudaSuccess) text += ". " + cuda_text(code);
  cudaGetLastError();
  return {verdict, code, std::move(text)};
}

/// Starts the runtime on the device.
IpcProbe start(int ordinal) {
  int driver = 0;
  int count = 0;
  cudaDriverGetVersion(&driver);
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && (ordinal < 0 || ordinal >= count)) code = cudaErrorInvalidDevice;
  if (code == cudaSuccess) code = cudaSetDevice(ordinal);
  if (code == cudaSuccess) code = cudaFree(nullptr);  // makes the context
  if (code != cudaSuccess) return result(verdict_of_start(code, driver), code, ordinal);
  return result(IpcVerdict::kAvailable, cudaSuccess, ordinal);
}

/// What is exported for a probe, and taken back at its end.
struct Exports {
  void* memory = nullptr;
  cudaEvent_t event = nullptr;
  cudaIpcMemHandle_t memory_handle{};
  cudaIpcEventHandle_t event_handle{};

  Exports() = default;
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;
  ~Exports() {
    if (event != nullptr) cudaEventDestroy(event);
    if (memory != nullptr) cudaFree(memory);
  }

  cudaError_t make() {
    cudaError_t code = cudaMalloc(&memory, sizeof(kProbeValue));
    if (code == cudaSuccess) code = cudaIpcGetMemHandle(&memory_handle, memory);
    if (code == cudaSuccess) {
      code = cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming);
    }
    if (code == cudaSuccess) code = cudaIpcGetEventHandle(&event_handle, event);
    if (code == cudaSuccess) {
      code = cudaMemcpyAsync(memory, &kProbeValue, sizeof(kProbeValue), cudaMemcpyHostToDevice,
                             nullptr);
    }
    if (code == cudaSuccess) code = cudaEventRecord(event, nullptr);
    return code;
  }
};

}  // namespace

const char* to_string(IpcVerdict verdict) noexcept {
  switch (verdict) {
    case IpcVerdict::kAvailable:
      return "available";
    case IpcVerdict::kUnsupported:
      return "unsupported";
    case IpcVerdict::kRefused:
      return "refused";
    case IpcVerdict::kNoDriver:
      return "no driver";
    case IpcVerdict::kOldDriver:
      return "old driver";
    case IpcVerdict::kNoDevice:
      return "no device";
    case IpcVerdict::kBusy:
      return "busy";
    case IpcVerdict::kBroken:
      break;
  }
  return "broken";
}

IpcProbe probe_ipc(int ordinal, bool second_process) {
  int current = 0;
  const bool current_known = cudaGetDevice(&current) == cudaSuccess;
  IpcProbe started = start(ordinal);
  if (!started.shares()) return started;
  const DeviceGuard guard(current_known ? current : ordinal);  // start() made it another one
  const DeviceGuard device(ordinal);
  int events = 0;
  cudaError_t code = cudaDeviceGetAttribute(&events, cudaDevAttrIpcEventSupport, ordinal);
  if (code == cudaSuccess && events == 0) {
    return result(IpcVerdict::kUnsupported, cudaSuccess, ordinal);
  }
  Exports exports;
  if (code == cudaSuccess) code = exports.make();
  if (code != cudaSuccess) return result(verdict_of_export(code), code, ordinal);
  if (second_process && initialised()) {
    code = open_in_second_process(
        {device_id(ordinal), exports.memory_handle, exports.event_handle, cudaErrorUnknown});
    if (code != cudaSuccess) return result(verdict_of_export(code), code, ordinal);
  }
  return started;
}

}  // namespace passel::shm
