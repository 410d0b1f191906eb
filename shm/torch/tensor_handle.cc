#include "passel/shm_torch/tensor_handle.h"

#include <c10/core/ScalarType.h>

#include <string>

#include "passel/shm/error.h"

namespace passel::shm {
namespace {

bool is_supported_dtype(std::int8_t raw) {
  switch (static_cast<c10::ScalarType>(raw)) {
    case c10::kBool:
    case c10::kByte:
    case c10::kChar:
    case c10::kShort:
    case c10::kInt:
    case c10::kLong:
    case c10::kHalf:
    case c10::kBFloat16:
    case c10::kFloat:
    case c10::kDouble:
    case c10::kComplexFloat:
    case c10::kComplexDouble:
      return true;
    default:
      return false;
  }
}

// Bytes from the first element to the end of the last one, or nullopt when a
// size or stride is negative or the arithmetic overflows. With strides of zero a
// tensor of few bytes can have more elements than ATen can count: checked too.
std::optional<std::uint64_t> extent_bytes(const TensorHandle& handle, std::uint64_t item_size) {
  std::uint64_t last = 0;
  std::int64_t elements = 1;
  for (int d = 0; d < handle.rank; ++d) {
    const std::int64_t size = handle.sizes[d];
    const std::int64_t stride = handle.strides[d];
    if (size < 0 || stride < 0) return std::nullopt;
    if (size == 0) elements = 0;
    if (elements == 0) continue;
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(size - 1),
                               static_cast<std::uint64_t>(stride), &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return std::nullopt;
    }
  }
  if (elements == 0) return 0;
  std::int64_t counted_bytes = 0;
  if (__builtin_mul_overflow(elements, static_cast<std::int64_t>(item_size), &counted_bytes)) {
    return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_add_overflow(last, std::uint64_t{1}, &last) ||
      __builtin_mul_overflow(last, item_size, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error("send or share a tensor", 0, what);
}

}  // namespace

const char* to_string(HandleStatus status) noexcept {
  switch (status) {
    case HandleStatus::kOk:
      return "is valid";
    case HandleStatus::kDamaged:
      return "is damaged";
    case HandleStatus::kOtherArena:
      return "is of another arena";
    case HandleStatus::kStale:
      return "is stale: its memory was given back since";
  }
  return "is damaged";
}

TensorHandle describe(const Arena& arena, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse("Expected a tensor, got an undefined one");
  if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu()) {
    refuse("Expected a dense CPU tensor, got " + std::string(tensor.toString()) + " on " +
           tensor.device().str() + "; send tensor.cpu()");
  }
  if (tensor.is_quantized() || tensor.has_names()) {
    refuse("Quantised and named tensors cannot be sent; send their plain parts");
  }
  if (tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor()) {
    refuse("A tensor with a pending conjugation or negation cannot be sent; send its clone");
  }
  if (tensor.dim() > TensorHandle::kMaxRank) {
    refuse("Expected at most 8 dimensions, got " + std::to_string(tensor.dim()));
  }
  if (tensor.requires_grad() && !tensor.is_leaf()) {
    refuse("A non-leaf tensor that requires grad cannot be sent; send tensor.detach()");
  }
  TensorHandle handle;
  handle.arena = arena.id();
  handle.dtype = static_cast<std::int8_t>(tensor.scalar_type());
  handle.rank = static_cast<std::uint8_t>(tensor.dim());
  handle.requires_grad = tensor.requires_grad() ? 1 : 0;
  for (int d = 0; d < handle.rank; ++d) {
    handle.sizes[d] = tensor.size(d);
    handle.strides[d] = tensor.stride(d);
  }
  if (!is_supported_dtype(handle.dtype)) {
    refuse("Tensors of type " + std::string(c10::toString(tensor.scalar_type())) +
           " cannot be sent");
  }
  if (tensor.numel() == 0) return handle;
  const auto* first = static_cast<const std::byte*>(tensor.const_data_ptr());
  handle.offset = static_cast<std::uint64_t>(first - arena.data());
  return handle;
}

TensorHandle to_handle(const Arena& arena, const at::Tensor& tensor) {
  TensorHandle handle = describe(arena, tensor);
  if (tensor.numel() > 0 && arena.at(handle.offset, extent(handle)) == nullptr) {
    refuse("The tensor's storage is not in the arena; copy it into a leased buffer first");
  }
  return handle;
}

std::uint64_t extent(const TensorHandle& handle) noexcept {
  return extent_bytes(handle, c10::elementSize(static_cast<c10::ScalarType>(handle.dtype)))
      .value_or(0);
}

HandleStatus check(const Arena& arena, const TensorHandle& handle) noexcept {
  if (handle.rank > TensorHandle::kMaxRank || !is_supported_dtype(handle.dtype)) {
    return HandleStatus::kDamaged;
  }
  if (handle.arena != arena.id()) return HandleStatus::kOtherArena;
  const auto dtype = static_cast<c10::ScalarType>(handle.dtype);
  const std::uint64_t item_size = c10::elementSize(dtype);
  const auto bytes = extent_bytes(handle, item_size);
  if (!bytes) return HandleStatus::kDamaged;
  if (handle.requires_grad != 0 && !c10::isFloatingType(dtype) && !c10::isComplexType(dtype)) {
    return HandleStatus::kDamaged;
  }
  const std::byte* const first = arena.at(handle.offset, *bytes);
  const bool aligned = reinterpret_cast<std::uintptr_t>(first) % item_size == 0;
  return first != nullptr && aligned ? HandleStatus::kOk : HandleStatus::kDamaged;
}

at::Tensor over(c10::DataPtr data, const TensorHandle& handle) {
  // Made by hand: at::from_blob() takes three times as long, and a queue makes a million a second.
  c10::Storage storage(c10::Storage::use_byte_size_t(), extent(handle), std::move(data), nullptr,
                       false);
  const auto type = c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(handle.dtype));
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), type);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides({handle.sizes.data(), handle.rank},
                                                      {handle.strides.data(), handle.rank});
  if (handle.requires_grad != 0) tensor.set_requires_grad(true);
  return tensor;
}

std::optional<at::Tensor> to_tensor(const Arena& arena, const TensorHandle& handle) {
  if (check(arena, handle) != HandleStatus::kOk) return std::nullopt;
  return over({arena.data() + handle.offset, c10::kCPU}, handle);
}

}  // namespace passel::shm
