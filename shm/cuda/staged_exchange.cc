#include "staged_exchange.h"

#include <cuda_runtime_api.h>

#include <new>
#include <string>

#include "exit_watch.h"
#include "passel/shm/fork_guard.h"
#include "passel/shm_cuda/cuda_error.h"
#include "passel/shm_cuda/device.h"

namespace passel::shm {
namespace {

std::string device_name(const std::string& name) {
  return name + ".device";
}

/// All regions, from the first one's start to the last one's end.
Block regions(const ChunkTable& table) {
  const Block first = table.region(0);
  return {first.offset, first.bytes * table.processes()};
}

struct Release {
  ChunkLedger* ledger;
  std::uint32_t chunk;
};

/// Runs on a thread of the runtime, which may not call CUDA.
void CUDART_CB release_now(void* data) {
  const std::unique_ptr<Release> release(static_cast<Release*>(data));
  release->ledger->release(release->chunk);
}

}  // namespace

StagedExchange::StagedExchange(const Arena& arena, const std::string& name, std::uint32_t process,
                               int device)
    : DeviceExchange(arena, name, process, device) {
  const DeviceGuard guard(device);
  pinned_ = PinnedMemory(arena.bytes(regions(ledger_.table())));
}

std::shared_ptr<StagedExchange> StagedExchange::create(Arena& arena, const DeviceOptions& options) {
  const ChunkTable table = ChunkTable::create(arena, {.processes = options.processes,
                                                      .chunks = options.chunks,
                                                      .region_bytes = options.region_bytes,
                                                      .name = options.name});
  const Block all = regions(table);
  const int code = arena.populate(all.offset, all.bytes);
  if (code != 0) {
    throw Error("take " + std::to_string(all.bytes) + " bytes of memory for copies", code,
                "Pinned memory is taken at once: ask for smaller regions or free some");
  }
  *arena.construct<DeviceId>(device_name(options.name)) = device_id(options.device);
  return std::make_shared<StagedExchange>(arena, options.name, 0, options.device);
}

std::shared_ptr<StagedExchange> StagedExchange::open(const Arena& arena, std::uint32_t process,
                                                     const std::string& name) {
  const DeviceId id = *arena.get<DeviceId>(device_name(name));
  const auto ordinal = find_device(id);
  if (!ordinal) {
    throw Error("open '" + name + "'", 0,
                "It is for device " + to_string(id) +
                    ", which this process does not see: check its CUDA_VISIBLE_DEVICES");
  }
  return std::make_shared<StagedExchange>(arena, name, process, *ordinal);
}

StagedExchange::~StagedExchange() {
  close_unless_exiting();
}

Block StagedExchange::add(const std::string& name, std::uint64_t bytes) {
  throw Error("add device block '" + name + "' of " + std::to_string(bytes) + " bytes", 0,
              "Without CUDA IPC no memory of the device is shared: keep it in the arena and copy");
}

std::byte* StagedExchange::block(const std::string& name) const {
  throw Error("find device block '" + name + "'", 0,
              "Without CUDA IPC no memory of the device is shared");
}

std::byte* StagedExchange::region_bytes(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return arena_.at(offset, bytes);
}

DeviceStatus StagedExchange::allocate(std::uint64_t bytes, cudaStream_t stream,
                                      DeviceBuffer& buffer) noexcept {
  if (closed_.load()) return DeviceStatus::kClosed;
  buffer.reset();
  if (bytes > ledger_.table().region(process()).bytes) return DeviceStatus::kTooLarge;
  const DeviceGuard guard(device_);
  void* data = nullptr;
  const DeviceStatus status = done(cudaMallocAsync(&data, bytes, stream));
  if (status != DeviceStatus::kOk) return status;
  buffer.exchange_ = shared_from_this();
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  buffer.stream_ = stream;
  return DeviceStatus::kOk;
}

DeviceStatus StagedExchange::prepare(const DeviceBuffer& buffer, cudaStream_t stream,
                                     DeviceHandle& handle) noexcept {
  if (closed_.load()) return DeviceStatus::kClosed;
  if (buffer.exchange_.get() != this) return DeviceStatus::kOtherArena;
  const ChunkLedger::Allocation message = ledger_.allocate(buffer.bytes_);
  if (message.status != ChunkLedger::Status::kOk) return status_of(message.status);
  const DeviceGuard guard(device_);
  DeviceStatus status = done(
      cudaMemcpyAsync(message.data, buffer.data_, buffer.bytes_, cudaMemcpyDeviceToHost, stream));
  if (status == DeviceStatus::kOk) status = done(cudaStreamSynchronize(stream));
  if (status != DeviceStatus::kOk) {
    ledger_.release(message.chunk.id);
    return status;
  }
  handle.offset = ledger_.table()[message.chunk.id].offset;
  handle.bytes = buffer.bytes_;
  handle.event = {};
  handle.chunk = message.chunk;
  handle.exchange = id();
  return DeviceStatus::kOk;
}

DeviceStatus StagedExchange::release_behind(std::uint32_t chunk, cudaStream_t stream) noexcept {
  auto* const release = new (std::nothrow) Release{&ledger_, chunk};
  if (release != nullptr &&
      done(cudaLaunchHostFunc(stream, &release_now, release)) == DeviceStatus::kOk) {
    return DeviceStatus::kOk;
  }
  delete release;
  const DeviceStatus status = done(cudaStreamSynchronize(stream));
  ledger_.release(chunk);
  return status;
}

DeviceStatus StagedExchange::receive(const DeviceHandle& handle, cudaStream_t stream,
                                     DeviceBuffer& buffer) noexcept {
  DeviceStatus status = allocate(handle.bytes, stream, buffer);
  if (status != DeviceStatus::kOk) {
    drop(handle);
    return status;
  }
  const DeviceGuard guard(device_);
  status = done(cudaMemcpyAsync(buffer.data_, arena_.at(handle.offset, handle.bytes), handle.bytes,
                                cudaMemcpyHostToDevice, stream));
  if (status != DeviceStatus::kOk) {
    drop(handle);
    buffer.reset();
    return status;
  }
  return release_behind(handle.chunk.id, stream);
}

DeviceStatus StagedExchange::check(const DeviceBuffer& /*buffer*/) const noexcept {
  return DeviceStatus::kOk;  // a message is sent when its bytes are there
}

void StagedExchange::release(DeviceBuffer& buffer) noexcept {
  if (closed_.load() || exiting() || forked()) return;
  const DeviceGuard guard(device_);
  done(cudaFreeAsync(buffer.data_, buffer.stream_));
}

void StagedExchange::forget(std::uint32_t process) noexcept {
  ledger_.forget(process);
}

void StagedExchange::close() {
  if (closed_.exchange(true)) return;
  const DeviceGuard guard(device_);
  check_cuda(cudaDeviceSynchronize(), "wait for the device");
  pinned_.reset();
}

}  // namespace passel::shm
