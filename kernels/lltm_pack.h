#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lltm_layout.h"
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

/// Copies `count` elements to columns first, first + 1, ... of one row of panels.
template <typename From, typename T>
void copy_to_panels(const From* from, std::int64_t count, T* panels, std::int64_t panel_stride,
                    std::int64_t first) {
  while (count > 0) {
    const std::int64_t column = first % kPanelColumns;
    const std::int64_t some = std::min(count, kPanelColumns - column);
    copy_as(from, some, panels + first / kPanelColumns * panel_stride + column);
    from += some;
    first += some;
    count -= some;
  }
}

/// Zeroes the columns from `first` to the end of their panel.
template <typename T>
void clear_panel_rest(T* panels, std::int64_t panel_stride, std::int64_t first) {
  const std::int64_t column = first % kPanelColumns;
  if (column == 0) return;
  std::fill_n(panels + first / kPanelColumns * panel_stride + column, kPanelColumns - column, T{});
}

}  // namespace passel::kernels
