#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "passel/shm/arena.h"
#include "passel/shm/chunk_ledger.h"
#include "passel/shm/deadline.h"
#include "passel/shm_torch/bindings.h"
#include "passel/shm_torch/tensor_handle.h"

namespace passel::shm {

/// What else than the thing waited for can end a wait in a queue: the death of
/// workers in the parent, a stop in a worker.
struct Interruption {
  std::function<bool()> pending = [] { return false; };  ///< cheap, no exception
  std::function<void()> raise = [] {};  ///< throws what there is to say, or returns
};

/// The tensors that one process has in the regions, and their way in and out.
///
/// A tensor of a region holds its chunk for as long as its storage lives in this
/// process; then the bytes are used again. Tensors keep the exchange and the
/// mapping alive, so they may outlive whoever made them.
///
/// Threads: any.
class TensorExchange : public std::enable_shared_from_this<TensorExchange> {
 public:
  /// @param process 0 is the parent, 1 + slot a worker
  TensorExchange(std::shared_ptr<const Arena> arena, std::uint32_t process);

  /// A tensor in this process's region, its values arbitrary. Queues never copy
  /// it; when its last holder in any process drops it, its bytes are used again.
  /// Waits until there is room. Throws Error naming the bytes when there cannot
  /// be: the region is too small, or this process itself holds all of it.
  at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, Deadline deadline = kNoDeadline);

  /// A dense copy of the elements of `tensor` alone, in this process's region:
  /// a view sent as it is keeps the whole of its storage (exposed_bytes()) in use.
  at::Tensor compact(const at::Tensor& tensor, Deadline deadline = kNoDeadline);

  /// Moves the storage of a tensor into this process's region, like
  /// Tensor.share_memory_() in Python: all tensors of this process over that
  /// storage are shared from now on, and stay each other's aliases. Does nothing
  /// for a tensor that already is in the arena.
  /// @return false when the deadline passed first
  bool share(const at::Tensor& tensor, Deadline deadline = kNoDeadline);

  /// @throws Error for a tensor in the memory of another Shared
  void check_private(const at::Tensor& tensor) const;

  /// The handle of a tensor that is in the arena, see share().
  TensorHandle handle(const at::Tensor& tensor) const;

  /// Takes a reference to the chunk of a handle that a message brought. To be
  /// called while the message is in its ring; then rebuild() or drop() it.
  HandleStatus claim(const TensorHandle& handle) noexcept;
  /// The tensor of a claimed handle.
  at::Tensor rebuild(const TensorHandle& handle);
  void drop(const TensorHandle& handle) noexcept;

  /// Memory of the arena outside of chunks, for a storage that keeps the mapping.
  c10::DataPtr permanent(std::byte* data) { return held(data, TensorHandle::kNoChunk); }

  /// Whether the tensor's storage lies in the arena.
  [[nodiscard]] bool shared(const at::Tensor& tensor) const noexcept;

  /// See Bindings. check_sharing() is called by every get() of a queue.
  void watch(const std::string& group, std::span<const NamedTensor> shared) {
    bindings_.watch(group, shared);
  }
  void bind(const std::string& group, std::span<const NamedTensor> tensors,
            std::span<const NamedTensor> shared) {
    bindings_.bind(group, tensors, shared);
  }
  void check_sharing() const { bindings_.check(); }

  void set_interruption(Interruption interruption) { interruption_ = std::move(interruption); }
  [[nodiscard]] const Interruption& interruption() const noexcept { return interruption_; }

  [[nodiscard]] const std::shared_ptr<const Arena>& arena() const noexcept { return arena_; }
  [[nodiscard]] ChunkLedger& ledger() noexcept { return ledger_; }
  [[nodiscard]] std::uint32_t process() const noexcept { return ledger_.process(); }
  /// What this process sleeps on.
  [[nodiscard]] Doorbell& inbox() const noexcept {
    return ledger_.table().inboxes()[ledger_.process()];
  }

 private:
  class Hold;

  ChunkLedger::Allocation allocate(std::uint64_t bytes, Deadline deadline);
  [[noreturn]] void refuse_interrupted(std::uint64_t bytes) const;
  c10::DataPtr held(std::byte* data, std::uint32_t chunk);

  std::shared_ptr<const Arena> arena_;
  ChunkLedger ledger_;
  Interruption interruption_;
  Bindings bindings_;
};

/// Bytes that stay in use as long as this tensor lives anywhere: those of its
/// whole storage, of which it may be a small view.
std::uint64_t exposed_bytes(const at::Tensor& tensor);

}  // namespace passel::shm
