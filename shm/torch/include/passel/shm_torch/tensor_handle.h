#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "passel/shm/arena.h"
#include "passel/shm/chunk_ledger.h"

namespace passel::shm {

/// A tensor of the arena as a plain record that fits in a queue entry. It holds
/// an offset, never a pointer, so it means the same in every process; it owns
/// nothing: whoever sends it keeps the bytes valid until the receiver has them
/// (a lease, see BufferPool, or a chunk, see ChunkLedger).
struct TensorHandle {
  static constexpr int kMaxRank = 8;
  static constexpr std::uint32_t kNoChunk = ~0U;

  std::uint64_t offset = 0;  ///< bytes from the arena's start to the first element
  std::array<std::int64_t, kMaxRank> sizes{};    ///< [rank] elements
  std::array<std::int64_t, kMaxRank> strides{};  ///< [rank] elements, none negative
  std::uint32_t arena = 0;                       ///< Arena::id()
  ChunkHandle chunk{kNoChunk, 0};                ///< what it lies in, if that is a chunk
  std::int8_t dtype = 0;                         ///< c10::ScalarType
  std::uint8_t rank = 0;
  std::uint8_t requires_grad = 0;
};
static_assert(std::is_trivially_copyable_v<TensorHandle>);

enum class HandleStatus : std::uint8_t {
  kOk,
  kDamaged,     ///< range, dtype, rank, sizes or strides make no sense
  kOtherArena,  ///< it names a tensor of another arena
  kStale,       ///< its chunk was given back, and perhaps to somebody else, since
};
const char* to_string(HandleStatus status) noexcept;

/// The handle of a tensor whose storage lies in the arena, outside of chunks.
/// Views keep their strides, so they alias at the receiver as they did at the
/// sender. Throws Error for a tensor that is not in the arena, has more than
/// kMaxRank dimensions, is sparse, quantised or named, or is a non-leaf that
/// requires grad.
TensorHandle to_handle(const Arena& arena, const at::Tensor& tensor);

/// A tensor over the handle's bytes in this process's mapping, without a copy.
/// nullopt when check() is not kOk: what another process wrote never crashes the
/// receiver. The arena must outlive the tensor. Any thread.
std::optional<at::Tensor> to_tensor(const Arena& arena, const TensorHandle& handle);

/// All that can be told without the chunk's record.
HandleStatus check(const Arena& arena, const TensorHandle& handle) noexcept;

/// Bytes from the first element of a handle to the end of its last one. The
/// handle must be checked.
std::uint64_t extent(const TensorHandle& handle) noexcept;

/// to_handle() for a tensor of which only the range is not checked.
TensorHandle describe(const Arena& arena, const at::Tensor& tensor);

/// A tensor of a checked handle over `data`, which holds its bytes.
at::Tensor over(c10::DataPtr data, const TensorHandle& handle);

}  // namespace passel::shm
