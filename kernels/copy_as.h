#pragma once

#include <cstdint>
#include <type_traits>

#include "passel/kernels/half.h"

namespace passel::kernels {

/// Copies `count` elements, as T.
template <typename From, typename T>
void copy_as(const From* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

/// Elements first .. last of `from` as T: copied to the same places of `scratch`,
/// or, where they are of type T already, `from` itself.
template <typename From, typename T>
const T* in_type(const From* from, std::int64_t first, std::int64_t last, T* scratch) {
  if constexpr (std::is_same_v<From, T>) {
    return from;
  } else {
    copy_as(from + first, last - first, scratch + first);
    return scratch;
  }
}

}  // namespace passel::kernels
