// to_tensor() over arbitrary handles: refused, or a tensor all of whose bytes lie in the arena.
#include <ATen/core/Tensor.h>
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "passel/shm/arena.h"
#include "passel/shm_torch/tensor_handle.h"

namespace {

using namespace passel::shm;

void check(bool right) {
  if (!right) std::abort();
}

TensorHandle handle_from(FuzzedDataProvider& input, const Arena& arena) {
  TensorHandle handle;
  if (input.ConsumeBool()) {  // any bytes at all
    input.ConsumeData(&handle, sizeof(handle));
    return handle;
  }
  // Nearly right: such as come through the first checks.
  handle.arena = arena.id();
  handle.dtype = input.ConsumeIntegralInRange<std::int8_t>(-1, 20);
  handle.rank = input.ConsumeIntegralInRange<std::uint8_t>(0, TensorHandle::kMaxRank + 1);
  handle.requires_grad = input.ConsumeIntegralInRange<std::uint8_t>(0, 1);
  handle.offset = input.ConsumeBool()
                      ? input.ConsumeIntegral<std::uint64_t>()
                      : input.ConsumeIntegralInRange<std::uint64_t>(0, arena.size() + 16);
  for (int d = 0; d < TensorHandle::kMaxRank; ++d) {
    handle.sizes[d] = input.ConsumeBool() ? input.ConsumeIntegral<std::int64_t>()
                                          : input.ConsumeIntegralInRange<std::int64_t>(-1, 9);
    handle.strides[d] = input.ConsumeBool() ? input.ConsumeIntegral<std::int64_t>()
                                            : input.ConsumeIntegralInRange<std::int64_t>(-1, 9);
  }
  return handle;
}

/// Where the first and the last element lie, by the tensor's own account.
void check_range(const Arena& arena, const at::Tensor& tensor) {
  if (tensor.numel() == 0) return;
  std::uint64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    last += static_cast<std::uint64_t>(tensor.size(d) - 1) *
            static_cast<std::uint64_t>(tensor.stride(d));
  }
  const std::uint64_t item = tensor.element_size();
  const auto* const first = static_cast<const std::byte*>(tensor.const_data_ptr());
  check(reinterpret_cast<std::uintptr_t>(first) % item == 0);
  check(first >= arena.data());
  const auto offset = static_cast<std::uint64_t>(first - arena.data());
  check(last < arena.size() / item);
  check(offset + (last + 1) * item <= arena.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Arena arena = Arena::create("fuzz", 1 << 16);
  FuzzedDataProvider input(data, size);
  const TensorHandle handle = handle_from(input, arena);
  const auto tensor = to_tensor(arena, handle);
  check(tensor.has_value() == (passel::shm::check(arena, handle) == HandleStatus::kOk));
  if (!tensor) return 0;
  check(tensor->dim() == handle.rank);
  check(tensor->numel() >= 0);
  check_range(arena, *tensor);
  const TensorHandle again = to_handle(arena, *tensor);
  check(again.dtype == handle.dtype && again.rank == handle.rank);
  check(to_tensor(arena, again)->sizes() == tensor->sizes());
  return 0;
}
