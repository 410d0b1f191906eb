// Matrices cut into panels of columns, as the right operand of a tile has them,
// compiled once per instruction set (hence no #pragma once).
#if defined(PASSEL_KERNELS_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PASSEL_KERNELS_PANELS_INL_H
#undef PASSEL_KERNELS_PANELS_INL_H
#else
#define PASSEL_KERNELS_PANELS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "copy_as.h"
#include "lltm_layout.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The vectors that products are computed in: of `units` elements, see PackedLayout.
template <typename T>
using Units = hn::CappedTag<T, kMostUnits>;
template <typename T>
inline constexpr auto kUnits = static_cast<std::int64_t>(kLanes<Units<T>>);
template <typename T>
inline constexpr std::int64_t kPanelColumns = 3 * kUnits<T>;

/// [columns / kPanelColumns][rows][kPanelColumns]
template <typename T>
struct Panels {
  T* data;
  std::int64_t stride;  // from panel to panel

  HWY_INLINE T* column(std::int64_t column) const {
    return data + column / kPanelColumns<T> * stride + column % kPanelColumns<T>;
  }
  HWY_INLINE Panels from_row(std::int64_t row) const {
    return {data + row * kPanelColumns<T>, stride};
  }
};

/// Copies `count` elements to the columns from `first` on of the first row.
template <typename From, typename T>
HWY_INLINE void copy_to_row(const From* from, std::int64_t count, Panels<T> row,
                            std::int64_t first) {
  const Units<T> d;
  while (count > 0) {
    T* to = row.column(first);
    const std::int64_t some = std::min(count, kPanelColumns<T> - first % kPanelColumns<T>);
    if constexpr (std::is_same_v<From, T>) {
      std::int64_t i = 0;
      for (; i + kUnits<T> <= some; i += kUnits<T>) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      for (; i < some; ++i) to[i] = from[i];
    } else {
      copy_as(from, some, to);
    }
    from += some;
    first += some;
    count -= some;
  }
}

/// Zeroes the columns from `first` to the end of their panel in the first row.
template <typename T>
HWY_INLINE void clear_row_rest(Panels<T> row, std::int64_t first) {
  const std::int64_t column = first % kPanelColumns<T>;
  if (column != 0) std::fill_n(row.column(first), kPanelColumns<T> - column, T{});
}

/// to[k * kPanelColumns + i] = row i, column k of panels, for k < columns and i < rows; the
/// places up to i = kMost are zeroed.
template <std::int64_t kMost, typename T>
HWY_INLINE void transpose_rows(Panels<T> panels, std::int64_t columns, std::int64_t rows, T* to) {
  for (std::int64_t k = 0; k < columns; ++k, to += kPanelColumns<T>) {
    const T* from = panels.column(k);
    for (std::int64_t i = 0; i < rows; ++i) to[i] = from[i * kPanelColumns<T>];
    std::fill(to + rows, to + kMost, T{});
  }
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
