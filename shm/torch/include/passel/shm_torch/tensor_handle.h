#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "passel/shm/arena.h"

namespace passel::shm {

// A tensor of the arena as a plain record that fits in a queue entry. It holds
// an offset, never a pointer, so it means the same in every process; it owns
// nothing: whoever sends it keeps the bytes valid until the receiver is done
// (a lease, see BufferPool).
struct TensorHandle {
  static constexpr int kMaxRank = 8;

  std::uint64_t offset = 0;                    // bytes from the arena's start to the first element
  std::array<std::int64_t, kMaxRank> sizes{};  // [rank] elements
  std::array<std::int64_t, kMaxRank> strides{};  // [rank] elements, none negative
  std::uint32_t generation = 0;                  // of the buffer it lies in; the lease checks it
  std::int8_t dtype = 0;                         // c10::ScalarType
  std::uint8_t rank = 0;
  std::uint8_t requires_grad = 0;
};
static_assert(std::is_trivially_copyable_v<TensorHandle>);

// The handle of a tensor whose storage lies in the arena. Views keep their
// strides, so they alias at the receiver as they did at the sender.
// Throws Error for a tensor that is not in the arena, has more than kMaxRank
// dimensions, is sparse, quantised or named, or is a non-leaf that requires grad.
TensorHandle to_handle(const Arena& arena, const at::Tensor& tensor);

// A tensor over the handle's bytes in this process's mapping, without a copy.
// nullopt when the handle is damaged (range, dtype, rank or strides are wrong):
// what another process wrote never crashes the receiver. The arena must outlive
// the tensor. Any thread.
std::optional<at::Tensor> to_tensor(const Arena& arena, const TensorHandle& handle);

}  // namespace passel::shm
