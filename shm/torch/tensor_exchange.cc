#include "passel/shm_torch/tensor_exchange.h"

#include <c10/core/ScalarType.h>

#include <cstring>
#include <mutex>
#include <string>

#include "passel/shm/error.h"
#include "passel/shm/fork_guard.h"

namespace passel::shm {
namespace {

// One tensor's storage at a time: two threads that send views of one storage
// must not both move it.
std::mutex& move_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string room_text(const ChunkLedger& ledger) {
  const std::uint64_t region = ledger.table().region(ledger.process()).bytes;
  return std::to_string(ledger.bytes_in_use()) + " of " + std::to_string(region) + " bytes and " +
         std::to_string(ledger.chunks_in_use()) + " of " +
         std::to_string(ledger.table().chunks_per_region()) +
         " chunks of this process's region are in use";
}

std::string allocation(std::uint64_t bytes) {
  return "allocate " + std::to_string(bytes) + " bytes of shared memory";
}

[[noreturn]] void refuse(ChunkLedger::Status status, std::uint64_t bytes,
                         const ChunkLedger& ledger) {
  const std::string what = allocation(bytes);
  switch (status) {
    case ChunkLedger::Status::kTooLarge:
      throw Error(what, 0,
                  "A region has " + std::to_string(ledger.table().region(ledger.process()).bytes) +
                      " bytes: ask for larger ones, SharedSettings::region, or send a compact copy "
                      "if this is a view");
    case ChunkLedger::Status::kOwn:
      throw Error(
          what, 0,
          room_text(ledger) +
              ", all of them by tensors that this process itself still has (what is put into "
              "a queue is moved into shared memory and stays there while its sender keeps "
              "it): drop some, or ask for more, SharedSettings::region or ::chunks");
    default:
      throw Error(what, ENOMEM, "The system has no memory left; " + room_text(ledger));
  }
}

}  // namespace

/// Owned by a storage: the reference to a chunk, or to nothing but the mapping.
class TensorExchange::Hold {
 public:
  Hold(std::shared_ptr<TensorExchange> exchange, std::uint32_t chunk)
      : exchange_(std::move(exchange)), chunk_(chunk) {}
  ~Hold() {
    if (chunk_ != TensorHandle::kNoChunk) exchange_->ledger_.release(chunk_);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  static void destroy(void* hold) { delete static_cast<Hold*>(hold); }

  /// Whether the tensor lies in the memory of another exchange.
  static bool foreign(const at::Tensor& tensor, const TensorExchange& exchange) {
    return tensor.storage().data_ptr().get_deleter() == &Hold::destroy &&
           of(tensor, exchange) == nullptr;
  }

  /// The hold of a tensor of `exchange`, or nullptr.
  static const Hold* of(const at::Tensor& tensor, const TensorExchange& exchange) {
    const c10::DataPtr& data = tensor.storage().data_ptr();
    if (data.get_deleter() != &Hold::destroy) return nullptr;
    const auto* hold = static_cast<const Hold*>(data.get_context());
    return hold->exchange_.get() == &exchange ? hold : nullptr;
  }

  [[nodiscard]] std::uint32_t chunk() const { return chunk_; }

 private:
  std::shared_ptr<TensorExchange> exchange_;
  std::uint32_t chunk_;
};

TensorExchange::TensorExchange(std::shared_ptr<const Arena> arena, std::uint32_t process)
    : arena_(std::move(arena)), ledger_(*arena_, ChunkTable::open(*arena_), process) {}

c10::DataPtr TensorExchange::held(std::byte* data, std::uint32_t chunk) {
  return {data, new Hold(shared_from_this(), chunk), &Hold::destroy, c10::kCPU};
}

// Its status is kOk, or kLent when the deadline passed.
ChunkLedger::Allocation TensorExchange::allocate(std::uint64_t bytes, Deadline deadline) {
  throw_if_forked();
  ChunkLedger::Allocation result = ledger_.allocate(bytes);
  const auto lent = [&] { return result.status == ChunkLedger::Status::kLent; };
  if (lent() && deadline != kNow) {
    inbox().wait(
        [&] {
          result = ledger_.allocate(bytes);
          return !lent() || interruption_.pending();
        },
        deadline);
    if (lent() && interruption_.pending()) refuse_interrupted(bytes);
  }
  if (result.status != ChunkLedger::Status::kOk && !lent()) refuse(result.status, bytes, ledger_);
  return result;
}

void TensorExchange::refuse_interrupted(std::uint64_t bytes) const {
  interruption_.raise();
  const std::string what = allocation(bytes);
  if (process() != 0) throw Stopped(what);
  throw Error(what, 0, "All workers have ended; " + room_text(ledger_));
}

at::Tensor TensorExchange::empty(at::IntArrayRef sizes, at::ScalarType dtype, Deadline deadline) {
  if (sizes.size() > TensorHandle::kMaxRank) {
    throw Error("make a shared tensor", 0,
                "Expected at most 8 dimensions, got " + std::to_string(sizes.size()));
  }
  TensorHandle handle;
  handle.dtype = static_cast<std::int8_t>(dtype);
  handle.rank = static_cast<std::uint8_t>(sizes.size());
  std::int64_t stride = 1;
  for (int d = handle.rank - 1; d >= 0; --d) {
    handle.sizes[d] = sizes[d];
    handle.strides[d] = stride;
    stride *= std::max<std::int64_t>(sizes[d], 1);
  }
  handle.arena = arena_->id();
  if (const HandleStatus status = check(*arena_, handle); status != HandleStatus::kOk) {
    throw Error("make a shared tensor of " + std::string(c10::toString(dtype)), 0,
                "Expected sizes of 0 or more and less than the arena together, and a plain type");
  }
  const std::uint64_t bytes = extent(handle);
  if (bytes == 0) return over({nullptr, c10::kCPU}, handle);
  const ChunkLedger::Allocation chunk = allocate(bytes, deadline);
  if (chunk.status != ChunkLedger::Status::kOk) {
    throw Error("make a shared tensor of " + std::to_string(bytes) + " bytes", ETIMEDOUT,
                room_text(ledger_));
  }
  return over(held(chunk.data, chunk.chunk.id), handle);
}

at::Tensor TensorExchange::compact(const at::Tensor& tensor, Deadline deadline) {
  const at::Tensor source = tensor.detach();
  at::Tensor copy = empty(source.sizes(), source.scalar_type(), deadline);
  copy.copy_(source);
  if (tensor.requires_grad() && tensor.is_leaf()) copy.set_requires_grad(true);
  return copy;
}

bool TensorExchange::shared(const at::Tensor& tensor) const noexcept {
  if (tensor.numel() == 0) return true;
  const auto* first = static_cast<const std::byte*>(tensor.storage().data());
  return first >= arena_->data() && first < arena_->data() + arena_->size();
}

void TensorExchange::check_private(const at::Tensor& tensor) const {
  if (!Hold::foreign(tensor, *this)) return;
  throw Error("share a tensor", 0,
              "It lies in the memory of another Shared, whose workers would lose it: share or send "
              "its clone()");
}

bool TensorExchange::share(const at::Tensor& tensor, Deadline deadline) {
  // Refuses what cannot be sent before anything is moved.
  (void)describe(*arena_, tensor);
  if (shared(tensor)) return true;
  check_private(tensor);
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  const std::size_t bytes = storage.nbytes();
  const ChunkLedger::Allocation chunk = allocate(bytes, deadline);
  if (chunk.status != ChunkLedger::Status::kOk) return false;
  c10::DataPtr data = held(chunk.data, chunk.chunk.id);  // lets it go if it is not needed
  const std::lock_guard lock(move_mutex());
  if (shared(tensor)) return true;
  std::memcpy(chunk.data, storage.data(), bytes);
  storage.set_data_ptr(std::move(data));
  // Growing would silently make it private again.
  storage.set_resizable(false);
  return true;
}

TensorHandle TensorExchange::handle(const at::Tensor& tensor) const {
  TensorHandle handle = describe(*arena_, tensor);
  if (tensor.numel() == 0) return handle;
  if (const Hold* hold = Hold::of(tensor, *this)) {
    if (hold->chunk() == TensorHandle::kNoChunk) return handle;
    // Relaxed: the hold keeps the chunk from changing hands.
    handle.chunk = {hold->chunk(),
                    ledger_.table()[hold->chunk()].generation.load(std::memory_order_relaxed)};
    return handle;
  }
  const bool inside = arena_->at(handle.offset, extent(handle)) != nullptr;
  const Block first = ledger_.table().region(0);
  const Block last = ledger_.table().region(ledger_.table().processes() - 1);
  if (!inside || (handle.offset >= first.offset && handle.offset < last.offset + last.bytes)) {
    throw Error("send a tensor", 0,
                "Its memory is not in the arena, or lies in a region without owning its part of "
                "it: send the tensor that came from empty(), share() or a queue, or a view of it");
  }
  return handle;
}

HandleStatus TensorExchange::claim(const TensorHandle& handle) noexcept {
  const HandleStatus status = check(*arena_, handle);
  if (status != HandleStatus::kOk || handle.chunk.id == TensorHandle::kNoChunk) return status;
  if (handle.chunk.id >= ledger_.table().size()) return HandleStatus::kDamaged;
  if (!ledger_.claim(handle.chunk)) return HandleStatus::kStale;
  const ChunkRecord& record = ledger_.table()[handle.chunk.id];
  const std::uint64_t bytes = extent(handle);
  if (handle.offset >= record.offset && bytes <= record.bytes &&
      handle.offset - record.offset <= record.bytes - bytes) {
    return HandleStatus::kOk;
  }
  ledger_.release(handle.chunk.id);
  return HandleStatus::kDamaged;
}

at::Tensor TensorExchange::rebuild(const TensorHandle& handle) {
  if (extent(handle) == 0) return over({nullptr, c10::kCPU}, handle);
  return over(held(arena_->data() + handle.offset, handle.chunk.id), handle);
}

void TensorExchange::drop(const TensorHandle& handle) noexcept {
  if (handle.chunk.id != TensorHandle::kNoChunk) ledger_.release(handle.chunk.id);
}

std::uint64_t exposed_bytes(const at::Tensor& tensor) {
  return tensor.storage().nbytes();
}

}  // namespace passel::shm
