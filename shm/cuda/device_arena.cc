#include "passel/shm_cuda/device_arena.h"

#include <cuda_runtime_api.h>

#include <random>
#include <utility>

#include "device_record.h"
#include "passel/shm_cuda/cuda_error.h"

namespace passel::shm {
namespace {

std::uint64_t bit(std::uint32_t process) {
  return std::uint64_t{1} << process % 64;
}

std::string free_text(std::uint64_t wanted) {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
  return "Wanted " + std::to_string(wanted) + " bytes, the device has " + std::to_string(free) +
         " of " + std::to_string(total) + " free: ask for less, or end what else runs there";
}

std::byte* open_memory(const DeviceRecord& record, int ordinal) {
  const DeviceGuard guard(ordinal);
  void* data = nullptr;
  check_cuda(cudaIpcOpenMemHandle(&data, record.handle, cudaIpcMemLazyEnablePeerAccess),
             "open the parent's memory on device " + to_string(record.device),
             "Containers of their own, or a parent that is gone, do that: see probe_ipc(), or "
             "stage through the host");
  return static_cast<std::byte*>(data);
}

}  // namespace

std::uint64_t process_token() {
  static const std::uint64_t token = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random() | 1U;
  }();
  return token;
}

DeviceArena::DeviceArena(DeviceRecord& record, int ordinal, std::byte* data,
                         std::uint32_t process) noexcept
    : record_(&record), ordinal_(ordinal), data_(data), size_(record.bytes), process_(process) {}

DeviceArena::DeviceArena(DeviceArena&& other) noexcept
    : record_(other.record_),
      ordinal_(other.ordinal_),
      data_(std::exchange(other.data_, nullptr)),
      size_(other.size_),
      process_(other.process_) {}

DeviceArena DeviceArena::create(Arena& arena, const std::string& name, int ordinal,
                                std::uint64_t bytes) {
  auto* const record = arena.construct<DeviceRecord>(name);
  const DeviceGuard guard(ordinal);
  const std::string operation =
      "allocate " + std::to_string(bytes) + " bytes on device " + std::to_string(ordinal);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, bytes);
  if (code != cudaSuccess) throw CudaError(operation, code, free_text(bytes));
  const cudaError_t exported = cudaIpcGetMemHandle(&record->handle, data);
  if (exported != cudaSuccess) {
    cudaFree(data);
    throw CudaError("export " + std::to_string(bytes) + " bytes of device memory", exported,
                    "This platform has no CUDA IPC: see probe_ipc(), or stage through the host");
  }
  record->device = device_id(ordinal);
  record->bytes = bytes;
  record->owner = process_token();
  record->address = reinterpret_cast<std::uintptr_t>(data);
  return {*record, ordinal, static_cast<std::byte*>(data), 0};
}

DeviceArena DeviceArena::open(const Arena& arena, const std::string& name, std::uint32_t process) {
  auto* const record = arena.get<DeviceRecord>(name);
  const auto ordinal = find_device(record->device);
  if (!ordinal) {
    throw Error("open device memory '" + name + "'", 0,
                "It is on device " + to_string(record->device) +
                    ", which this process does not see: check its CUDA_VISIBLE_DEVICES");
  }
  if (record->owner == process_token()) {
    return {*record, *ordinal, reinterpret_cast<std::byte*>(record->address), process};
  }
  // Before the opening: a kill in between leaves a bit that forget() clears, not a mapping that
  // nobody knows of.
  record->open[process / 64].fetch_or(bit(process));
  try {
    return {*record, *ordinal, open_memory(*record, *ordinal), process};
  } catch (const CudaError&) {
    record->open[process / 64].fetch_and(~bit(process));
    throw;
  }
}

bool DeviceArena::here() const noexcept {
  return record_->owner == process_token();
}

void DeviceArena::close() {
  if (data_ == nullptr) return;
  const DeviceGuard guard(ordinal_);
  if (!here()) {
    check_cuda(cudaIpcCloseMemHandle(std::exchange(data_, nullptr)), "close device memory");
    record_->open[process_ / 64].fetch_and(~bit(process_));
  } else if (process_ == 0) {
    for (const auto& word : record_->open) {
      if (word.load() == 0) continue;
      throw Error("free device memory", 0,
                  "A process still has it open: let all workers end, and forget() the dead ones");
    }
    check_cuda(cudaFree(std::exchange(data_, nullptr)), "free device memory");
  }
  data_ = nullptr;
}

void DeviceArena::forget(std::uint32_t process) noexcept {
  record_->open[process / 64].fetch_and(~bit(process));
}

}  // namespace passel::shm
