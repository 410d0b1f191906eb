#include "ipc_exchange.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "exit_watch.h"
#include "passel/shm/fork_guard.h"
#include "passel/shm_cuda/cuda_error.h"

namespace passel::shm {
namespace {

constexpr std::uint64_t kFixedAlign = 4096;

std::string memory_name(const std::string& name) {
  return name + ".memory";
}
std::string marks_name(const std::string& name) {
  return name + ".marks";
}
std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kFixedAlign - 1) / kFixedAlign * kFixedAlign;
}

}  // namespace

IpcExchange::IpcExchange(const Arena& arena, const std::string& name, std::uint32_t process,
                         DeviceArena device, EventPool events)
    : DeviceExchange(arena, name, process, device.ordinal()),
      name_(name),
      memory_(std::move(device)),
      events_(std::move(events)),
      marks_(arena.get_array<std::atomic<std::uint64_t>>(marks_name(name))) {
  const ChunkTable& table = ledger_.table();
  for (std::uint32_t i = 0; i < table.chunks_per_region(); ++i) {
    const ChunkRecord& record = table[process * table.chunks_per_region() + i];
    const Range range{record.offset, record.bytes};
    former_.push_back({range, range});
  }
}

std::shared_ptr<IpcExchange> IpcExchange::create(Arena& arena, const DeviceOptions& options) {
  const std::string& name = options.name;
  const ChunkTable table =
      ChunkTable::create(arena, {.processes = options.processes,
                                 .chunks = options.chunks,
                                 .region_bytes = options.region_bytes,
                                 .name = name,
                                 .elsewhere = true,
                                 .first_offset = rounded(options.fixed_bytes)});
  arena.construct_array<std::atomic<std::uint64_t>>(marks_name(name),
                                                    std::size_t{table.size()} * table.processes());
  const Block last = table.region(options.processes - 1);
  DeviceArena memory =
      DeviceArena::create(arena, memory_name(name), options.device, last.offset + last.bytes);
  try {
    EventPool events =
        EventPool::create(arena, name, options.device, options.processes, options.events);
    auto exchange =
        std::make_shared<IpcExchange>(arena, name, 0, std::move(memory), std::move(events));
    exchange->layout_ = &arena;
    return exchange;
  } catch (...) {
    memory.close();
    throw;
  }
}

std::shared_ptr<IpcExchange> IpcExchange::open(const Arena& arena, std::uint32_t process,
                                               const std::string& name) {
  DeviceArena memory = DeviceArena::open(arena, memory_name(name), process);
  const std::uint32_t processes = ChunkTable::open(arena, name).processes();
  EventPool events =
      EventPool::open(arena, name, memory.ordinal(), processes, process, memory.here());
  return std::make_shared<IpcExchange>(arena, name, process, std::move(memory), std::move(events));
}

IpcExchange::~IpcExchange() {
  close_unless_exiting();
}

Block IpcExchange::add(const std::string& name, std::uint64_t bytes) {
  const std::uint64_t fixed = ledger_.table().region(0).offset;
  const std::uint64_t size = rounded(bytes);
  if (layout_ == nullptr || bytes == 0 || bytes > fixed || size > fixed - fixed_used_) {
    throw Error("add device block '" + name + "' of " + std::to_string(bytes) + " bytes", 0,
                "Of " + std::to_string(fixed) + " fixed bytes " + std::to_string(fixed_used_) +
                    " are used, and each block takes whole pages: the parent creates the exchange "
                    "with more");
  }
  auto* const block = layout_->construct<Block>(name_ + "/" + name);
  *block = {std::exchange(fixed_used_, fixed_used_ + size), bytes};
  return *block;
}

std::byte* IpcExchange::block(const std::string& name) const {
  const Block block = *arena_.get<Block>(name_ + "/" + name);
  std::byte* const data = memory_.at(block.offset, block.bytes);
  if (data == nullptr) {
    throw Error("find device block '" + name + "'", 0,
                "It lies outside the device memory: the exchange is closed, or memory was damaged");
  }
  return data;
}

std::byte* IpcExchange::region_bytes(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return memory_.at(offset, bytes);
}

std::span<std::atomic<std::uint64_t>> IpcExchange::marks(std::uint32_t chunk) const noexcept {
  const std::size_t processes = ledger_.table().processes();
  return marks_.subspan(chunk * processes, processes);
}

DeviceStatus IpcExchange::from_pool(DeviceStatus status) noexcept {
  return status == DeviceStatus::kCuda ? done(events_.last_error()) : status;
}

DeviceStatus IpcExchange::await_marks(std::uint32_t chunk, cudaStream_t stream) noexcept {
  for (const auto& word : marks(chunk)) {
    // Relaxed here and below: written before the holder's bit was cleared with release, and read
    // after held() saw that with acquire.
    const EventMark mark{word.load(std::memory_order_relaxed)};
    if (mark.none()) continue;
    const DeviceStatus status = events_.wait(mark, stream);
    if (status == DeviceStatus::kCuda) return from_pool(status);
  }
  return DeviceStatus::kOk;
}

bool IpcExchange::all_over(std::uint32_t chunk) noexcept {
  return std::ranges::all_of(marks(chunk), [&](const auto& word) {
    return events_.over({word.load(std::memory_order_relaxed)});
  });
}

DeviceStatus IpcExchange::await_former_users(std::uint32_t chunk, cudaStream_t stream) noexcept {
  const ChunkTable& table = ledger_.table();
  const std::uint32_t first = process() * table.chunks_per_region();
  const Range range{table[chunk].offset, table[chunk].bytes};
  Former& former = former_[chunk - first];
  DeviceStatus status = DeviceStatus::kOk;
  if (former.last != range) {
    // The heap made a new chunk of what other chunks had before: their marks tell of its bytes.
    for (std::uint32_t i = 0; i < former_.size() && status == DeviceStatus::kOk; ++i) {
      if (first + i != chunk && former_[i].all.overlaps(range)) {
        status = await_marks(first + i, stream);
      }
    }
    // Those of this number tell of bytes that are others' now, and stay until they are over.
    former = {range, all_over(chunk) ? range : former.all.hull(range)};
  }
  if (status == DeviceStatus::kOk) status = await_marks(chunk, stream);
  if (former.all == range) {
    for (auto& word : marks(chunk)) word.store(0, std::memory_order_relaxed);
  }
  return status;
}

DeviceStatus IpcExchange::allocate(std::uint64_t bytes, cudaStream_t stream,
                                   DeviceBuffer& buffer) noexcept {
  if (closed_.load()) return DeviceStatus::kClosed;
  buffer.reset();
  const std::lock_guard lock(mutex_);
  const ChunkLedger::Allocation allocation = ledger_.allocate(bytes);
  if (allocation.status != ChunkLedger::Status::kOk) return status_of(allocation.status);
  const std::uint32_t chunk = allocation.chunk.id;
  const DeviceStatus status = await_former_users(chunk, stream);
  std::byte* const data = memory_.at(ledger_.table()[chunk].offset, bytes);
  if (status != DeviceStatus::kOk || data == nullptr) {
    ledger_.release(chunk);
    return status != DeviceStatus::kOk ? status : DeviceStatus::kDamaged;
  }
  buffer.exchange_ = shared_from_this();
  buffer.data_ = data;
  buffer.bytes_ = bytes;
  buffer.stream_ = stream;
  buffer.chunk_ = chunk;
  buffer.received_ = {};
  return DeviceStatus::kOk;
}

DeviceStatus IpcExchange::mark_use(std::uint32_t chunk, cudaStream_t stream,
                                   EventMark& mark) noexcept {
  std::atomic<std::uint64_t>& word = marks(chunk)[process()];
  const EventMark earlier{word.load(std::memory_order_relaxed)};  // this process's own word
  if (!earlier.none()) {
    const DeviceStatus status = events_.wait(earlier, stream);  // so that one mark stands for both
    if (status == DeviceStatus::kCuda) return from_pool(status);
  }
  const DeviceStatus status = events_.record(stream, mark);
  if (status != DeviceStatus::kOk) return from_pool(status);
  word.store(mark.word, std::memory_order_relaxed);
  return DeviceStatus::kOk;
}

DeviceStatus IpcExchange::prepare(const DeviceBuffer& buffer, cudaStream_t stream,
                                  DeviceHandle& handle) noexcept {
  if (closed_.load()) return DeviceStatus::kClosed;
  if (buffer.exchange_.get() != this) return DeviceStatus::kOtherArena;
  const std::lock_guard lock(mutex_);
  EventMark mark;
  const DeviceStatus status = mark_use(buffer.chunk_, stream, mark);
  if (status != DeviceStatus::kOk) return status;
  ledger_.retain(buffer.chunk_);
  handle.offset = static_cast<std::uint64_t>(buffer.data_ - memory_.data());
  handle.bytes = buffer.bytes_;
  handle.event = mark;
  // Relaxed: it does not change while this process holds the chunk.
  handle.chunk = {buffer.chunk_,
                  ledger_.table()[buffer.chunk_].generation.load(std::memory_order_relaxed)};
  handle.exchange = id();
  return DeviceStatus::kOk;
}

DeviceStatus IpcExchange::receive(const DeviceHandle& handle, cudaStream_t stream,
                                  DeviceBuffer& buffer) noexcept {
  buffer.reset();
  DeviceStatus status = DeviceStatus::kClosed;
  if (!closed_.load()) {
    const std::lock_guard lock(mutex_);
    status = from_pool(events_.wait(handle.event, stream));
  }
  if (status != DeviceStatus::kOk) {
    drop(handle);
    return status;
  }
  buffer.exchange_ = shared_from_this();
  buffer.data_ = memory_.at(handle.offset, handle.bytes);
  buffer.bytes_ = handle.bytes;
  buffer.stream_ = stream;
  buffer.chunk_ = handle.chunk.id;
  buffer.received_ = handle.event;
  return DeviceStatus::kOk;
}

DeviceStatus IpcExchange::check(const DeviceBuffer& buffer) const noexcept {
  return events_.lost(buffer.received_) ? DeviceStatus::kLost : DeviceStatus::kOk;
}

void IpcExchange::release(DeviceBuffer& buffer) noexcept {
  if (!closed_.load() && !exiting() && !forked()) {
    const std::lock_guard lock(mutex_);
    EventMark mark;
    const DeviceGuard guard(device_);
    // Without a mark nobody can wait for this work but here. Should that fail, too, the context is
    // broken, and nothing of it runs any more.
    if (mark_use(buffer.chunk_, buffer.stream_, mark) != DeviceStatus::kOk) {
      done(cudaDeviceSynchronize());
    }
  }
  ledger_.release(buffer.chunk_);
}

void IpcExchange::forget(std::uint32_t process) noexcept {
  {
    const std::lock_guard lock(mutex_);
    from_pool(events_.settle(process));
  }
  memory_.forget(process);
  ledger_.forget(process);
}

void IpcExchange::close() {
  const std::lock_guard lock(mutex_);
  if (memory_.data() == nullptr) return;
  const DeviceGuard guard(device_);
  if (!closed_.load()) check_cuda(cudaDeviceSynchronize(), "wait for the device");
  memory_.close();
  closed_.store(true);
  events_.close();
}

}  // namespace passel::shm
