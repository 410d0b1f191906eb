#include "passel/shm_cuda/device_exchange.h"

#include <cuda_runtime_api.h>

#include <functional>
#include <utility>

#include "exit_watch.h"
#include "ipc_exchange.h"
#include "passel/shm/fork_guard.h"
#include "passel/shm_cuda/cuda_error.h"
#include "staged_exchange.h"

namespace passel::shm {
namespace {

std::uint32_t exchange_id(const Arena& arena, std::string_view name) {
  std::uint32_t hash = arena.id();
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 16777619U;  // FNV-1
  }
  return hash;
}

}  // namespace

DeviceExchange::DeviceExchange(const Arena& arena, const std::string& name, std::uint32_t process,
                               int device)
    : arena_(arena),
      ledger_(arena, ChunkTable::open(arena, name), process),
      device_(device),
      id_(exchange_id(arena, name)) {
  watch_exit();
}

std::shared_ptr<DeviceExchange> DeviceExchange::create(Arena& arena, const DeviceOptions& options) {
  throw_if_forked();
  if (options.cuda_ipc) return IpcExchange::create(arena, options);
  return StagedExchange::create(arena, options);
}

std::shared_ptr<DeviceExchange> DeviceExchange::open(const Arena& arena, std::uint32_t process,
                                                     const std::string& name) {
  throw_if_forked();
  const ChunkTable table = ChunkTable::open(arena, name);
  if (process >= table.processes()) {
    throw Error("open '" + name + "' as process " + std::to_string(process), 0,
                "It was created for " + std::to_string(table.processes()) +
                    " processes, the parent included");
  }
  if (table.elsewhere()) return IpcExchange::open(arena, process, name);
  return StagedExchange::open(arena, process, name);
}

DeviceStatus DeviceExchange::allocate(std::uint64_t bytes, cudaStream_t stream,
                                      DeviceBuffer& buffer, Deadline deadline) noexcept {
  DeviceStatus status = allocate(bytes, stream, buffer);
  if (status != DeviceStatus::kLent) return status;
  inbox().wait([&] { return (status = allocate(bytes, stream, buffer)) != DeviceStatus::kLent; },
               deadline);
  return status == DeviceStatus::kLent ? DeviceStatus::kTimeout : status;
}

void DeviceExchange::sent(std::uint32_t lane, std::uint64_t ticket, const DeviceHandle& handle) {
  ledger_.sent(lane, ticket, handle.chunk.id);
}

DeviceStatus DeviceExchange::claim(const DeviceHandle& handle) noexcept {
  if (handle.exchange != id_) return DeviceStatus::kOtherArena;
  const ChunkTable& table = ledger_.table();
  if (handle.chunk.id >= table.size() || handle.bytes == 0 ||
      region_bytes(handle.offset, handle.bytes) == nullptr) {
    return DeviceStatus::kDamaged;
  }
  if (!ledger_.claim(handle.chunk)) return DeviceStatus::kStale;
  const ChunkRecord& record = table[handle.chunk.id];
  if (handle.offset >= record.offset && handle.bytes <= record.bytes &&
      handle.offset - record.offset <= record.bytes - handle.bytes) {
    return DeviceStatus::kOk;
  }
  ledger_.release(handle.chunk.id);
  return DeviceStatus::kDamaged;
}

void DeviceExchange::drop(const DeviceHandle& handle) noexcept {
  ledger_.release(handle.chunk.id);
}

void DeviceExchange::close_unless_exiting() noexcept {
  if (exiting() || forked()) return;
  try {
    close();
  } catch (const std::exception&) {
    // A worker still has the memory open: it stays, and goes with this process.
  }
}

DeviceStatus DeviceExchange::done(cudaError_t code) noexcept {
  if (code == cudaSuccess) return DeviceStatus::kOk;
  cudaGetLastError();  // reported here, not once more by somebody's next check
  last_error_.store(code);
  return DeviceStatus::kCuda;
}

DeviceStatus DeviceExchange::status_of(ChunkLedger::Status status) noexcept {
  switch (status) {
    case ChunkLedger::Status::kOk:
      return DeviceStatus::kOk;
    case ChunkLedger::Status::kLent:
      return DeviceStatus::kLent;
    case ChunkLedger::Status::kOwn:
      return DeviceStatus::kOwn;
    case ChunkLedger::Status::kTooLarge:
      return DeviceStatus::kTooLarge;
    case ChunkLedger::Status::kSystem:
      break;
  }
  return DeviceStatus::kSystem;
}

}  // namespace passel::shm
