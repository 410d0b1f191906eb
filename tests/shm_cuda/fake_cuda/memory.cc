// Memory: each allocation is a memory file of its own, which others open through /proc/PID/fd.
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "fake_cuda.h"
#include "stream.h"
#include "world.h"

namespace passel::fake_cuda {
namespace {

/// What this process has mapped, by address.
struct Mapping {
  std::uint32_t index;
  std::uint32_t generation;
  std::uint64_t bytes;
  int fd;
  bool opened;  ///< from a handle of another process
};

struct Local {
  std::mutex mutex;
  std::map<void*, Mapping> mappings;
  std::map<std::byte*, std::size_t> pinned;
};

Local& local() {
  static auto* const all = new Local;  // outlives static destructors
  return *all;
}

struct Handle {
  std::uint32_t magic;
  std::uint32_t index;
  std::uint32_t generation;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));
constexpr std::uint32_t kMagic = 0x6d656d6f;

void* map_file(int fd, std::uint64_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return data == MAP_FAILED ? nullptr : data;
}

std::uint64_t used(int device) {
  std::uint64_t bytes = 0;
  for (const Allocation& allocation : world().allocations) {
    if (allocation.owner != 0 && allocation.device == device) bytes += allocation.bytes;
  }
  return bytes;
}

cudaError_t allocate(void** data, std::size_t bytes, bool exportable) {
  const WorldLock lock;
  bury_dead();
  const int device = current_device();
  auto* const place = std::ranges::find(world().allocations, 0, &Allocation::owner);
  if (bytes == 0 || used(device) + bytes > kDeviceBytes || place == world().allocations.end()) {
    return fails(cudaErrorMemoryAllocation);
  }
  const int fd = ::memfd_create("fake-gpu-memory", MFD_CLOEXEC);
  void* const found =
      fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? map_file(fd, bytes) : nullptr;
  if (found == nullptr) {
    ::close(fd);
    return fails(cudaErrorMemoryAllocation);
  }
  *place = {0, place->generation + 1, device, exportable ? fd : -1, bytes};
  place->owner = ::getpid();
  const std::lock_guard local_lock(local().mutex);
  local().mappings[found] = {static_cast<std::uint32_t>(place - world().allocations.begin()),
                             place->generation, bytes, fd, false};
  *data = found;
  return cudaSuccess;
}

bool opened_elsewhere(const Mapping& mapping) {
  return std::ranges::any_of(world().memory_imports, [&](const Import& import) {
    return import.process != 0 && import.index == mapping.index &&
           import.generation == mapping.generation;
  });
}

void unmap(std::map<void*, Mapping>::iterator mapping) {
  ::munmap(mapping->first, mapping->second.bytes);
  ::close(mapping->second.fd);
  local().mappings.erase(mapping);
}

cudaError_t release(void* data) {
  const WorldLock lock;
  bury_dead();
  const std::lock_guard local_lock(local().mutex);
  const auto mapping = local().mappings.find(data);
  if (mapping == local().mappings.end() || mapping->second.opened) {
    return fails(cudaErrorInvalidValue);
  }
  if (opened_elsewhere(mapping->second)) {
    report_violation("device memory was freed under an open handle");
  }
  world().allocations[mapping->second.index].owner = 0;
  unmap(mapping);
  return cudaSuccess;
}

bool pinned_range(const void* data, std::size_t bytes) {
  auto* const first = static_cast<std::byte*>(const_cast<void*>(data));
  const std::lock_guard lock(local().mutex);
  auto range = local().pinned.upper_bound(first);
  if (range == local().pinned.begin()) return false;
  --range;
  return first + bytes <= range->first + range->second;
}

}  // namespace

std::uint32_t pinned() {
  const std::lock_guard lock(local().mutex);
  return static_cast<std::uint32_t>(local().pinned.size());
}

}  // namespace passel::fake_cuda

using namespace passel::fake_cuda;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const auto code = enter("cudaMalloc")) return code;
  return allocate(data, bytes, true);
}

cudaError_t cudaFree(void* data) {
  if (const auto code = enter("cudaFree")) return code;
  return data == nullptr ? cudaSuccess : release(data);
}

cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream) {
  if (const auto code = enter("cudaMallocAsync")) return code;
  if (find_stream(stream) == nullptr) return fails(cudaErrorInvalidResourceHandle);
  return allocate(data, bytes, false);
}

cudaError_t cudaFreeAsync(void* data, cudaStream_t handle) {
  if (const auto code = enter("cudaFreeAsync")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->push([data] { release(data); });
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const auto code = enter("cudaMemGetInfo")) return code;
  const WorldLock lock;
  bury_dead();
  *total = kDeviceBytes;
  *free = kDeviceBytes - used(current_device());
  return cudaSuccess;
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  if (const auto code = enter("cudaIpcGetMemHandle")) return code;
  const std::lock_guard lock(local().mutex);
  const auto mapping = local().mappings.find(data);
  if (mapping == local().mappings.end() || mapping->second.opened ||
      world().allocations[mapping->second.index].fd < 0) {
    return fails(cudaErrorInvalidValue);
  }
  const Handle made{kMagic, mapping->second.index, mapping->second.generation};
  std::memset(handle, 0, sizeof(*handle));
  std::memcpy(handle, &made, sizeof(made));
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned /*flags*/) {
  if (const auto code = enter("cudaIpcOpenMemHandle")) return code;
  Handle given{};
  std::memcpy(&given, &handle, sizeof(given));
  const WorldLock lock;
  bury_dead();
  if (given.magic != kMagic || given.index >= world().allocations.size()) {
    return fails(cudaErrorInvalidValue);
  }
  const Allocation& allocation = world().allocations[given.index];
  if (allocation.owner == 0 || allocation.generation != given.generation) {
    return fails(cudaErrorInvalidResourceHandle);
  }
  if (allocation.owner == ::getpid()) return fails(cudaErrorDeviceUninitialized);
  if (allocation.device != current_device()) return fails(cudaErrorInvalidDevice);
  Import* place = nullptr;
  for (Import& import : world().memory_imports) {
    if (import.process == ::getpid() && import.index == given.index) {
      report_violation("a process opened device memory twice");
    }
    if (import.process == 0 && place == nullptr) place = &import;
  }
  const std::string path =
      "/proc/" + std::to_string(allocation.owner) + "/fd/" + std::to_string(allocation.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  void* const found = fd < 0 || place == nullptr ? nullptr : map_file(fd, allocation.bytes);
  if (found == nullptr) {
    ::close(fd);
    return fails(cudaErrorMapBufferObjectFailed);
  }
  *place = {::getpid(), given.index, given.generation};
  const std::lock_guard local_lock(local().mutex);
  local().mappings[found] = {given.index, given.generation, allocation.bytes, fd, true};
  *data = found;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* data) {
  if (const auto code = enter("cudaIpcCloseMemHandle")) return code;
  const WorldLock lock;
  const std::lock_guard local_lock(local().mutex);
  const auto mapping = local().mappings.find(data);
  if (mapping == local().mappings.end() || !mapping->second.opened) {
    return fails(cudaErrorInvalidValue);
  }
  for (Import& import : world().memory_imports) {
    if (import.process == ::getpid() && import.index == mapping->second.index) import = {};
  }
  unmap(mapping);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned /*flags*/) {
  if (const auto code = enter("cudaHostRegister")) return code;
  if (pinned_range(data, 1)) return fails(cudaErrorHostMemoryAlreadyRegistered);
  const std::lock_guard lock(local().mutex);
  local().pinned[static_cast<std::byte*>(data)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* data) {
  if (const auto code = enter("cudaHostUnregister")) return code;
  const std::lock_guard lock(local().mutex);
  return local().pinned.erase(static_cast<std::byte*>(data)) == 1
             ? cudaSuccess
             : fails(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  if (const auto code = enter("cudaMemcpyAsync")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->push([=] { std::memcpy(to, from, bytes); });
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  // As CUDA does with memory that is not pinned.
  if (kind != cudaMemcpyDeviceToDevice && !pinned_range(host, bytes)) stream->synchronize();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t handle) {
  if (const auto code = enter("cudaMemsetAsync")) return code;
  Stream* const stream = find_stream(handle);
  if (stream == nullptr) return fails(cudaErrorInvalidResourceHandle);
  stream->push([=] { std::memset(data, value, bytes); });
  return cudaSuccess;
}

}  // extern "C"
