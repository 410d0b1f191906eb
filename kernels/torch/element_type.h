#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>

#include "passel/kernels/half.h"

namespace passel::detail {

/// Calls f with a std::type_identity of how the kernels call elements of that type.
template <class F>
void with_element_type(at::ScalarType type, F&& f) {
  switch (type) {
    case at::kFloat:
      return f(std::type_identity<float>{});
    case at::kDouble:
      return f(std::type_identity<double>{});
    case at::kBFloat16:
      return f(std::type_identity<kernels::Bfloat16>{});
    case at::kHalf:
      return f(std::type_identity<kernels::Float16>{});
    default:
      TORCH_INTERNAL_ASSERT(false, "lltm has no kernel for ", type);
  }
}

/// An undefined tensor has none. T is const where the tensor is only read.
template <typename T>
T* data_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(tensor.const_data_ptr());
  } else {
    return static_cast<T*>(tensor.mutable_data_ptr());
  }
}

}  // namespace passel::detail
