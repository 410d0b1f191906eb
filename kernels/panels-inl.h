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

/// Zeroes the columns from `first` to the end of their panel in the first row, or with `width`
/// kUnits of their vector: products read no more, but what is kept has no old values in it.
template <typename T>
HWY_INLINE void clear_row_rest(Panels<T> row, std::int64_t first,
                               std::int64_t width = kPanelColumns<T>) {
  const std::int64_t column = first % width;
  if (column != 0) std::fill_n(row.column(first), width - column, T{});
}

/// Columns that are transposed at once: those of a 16-byte block.
template <typename T>
inline constexpr std::int64_t kBlockColumns = 16 / sizeof(T);

#if HWY_TARGET == HWY_SCALAR
template <typename T>
HWY_INLINE std::int64_t transpose_whole_blocks(Panels<T>, std::int64_t, T*) {
  return 0;
}
#else
/// A vector whose 16-byte blocks are from rows kBlockColumns apart, the first from the first.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from) {
  if constexpr (kLanes<D> == kBlockColumns<T>) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr auto kRows = static_cast<std::int64_t>(kLanes<D> / 2);
    return hn::Combine(d, load_blocks(half, from + kRows * kPanelColumns<T>),
                       load_blocks(half, from));
  }
}

/// The block of columns at `from` of kUnits rows, a column to each vector.
template <typename T>
HWY_INLINE void transpose_block(const T* from, T* to) {
  const Units<T> d;
  const auto rows = [&](int i) HWY_ATTR { return load_blocks(d, from + i * kPanelColumns<T>); };
  const auto store = [&](auto column, int k) HWY_ATTR {
    hn::StoreU(hn::BitCast(d, column), d, to + k * kPanelColumns<T>);
  };
  const auto row0 = rows(0), row1 = rows(1);
  if constexpr (kBlockColumns<T> == 2) {
    store(hn::InterleaveLower(d, row0, row1), 0);
    store(hn::InterleaveUpper(d, row0, row1), 1);
  } else {
    const hn::Repartition<double, Units<T>> pairs;
    const auto row2 = rows(2), row3 = rows(3);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, row0, row1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, row2, row3));
    const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, row0, row1));
    const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, row2, row3));
    store(hn::InterleaveLower(pairs, low01, low23), 0);
    store(hn::InterleaveUpper(pairs, low01, low23), 1);
    store(hn::InterleaveLower(pairs, high01, high23), 2);
    store(hn::InterleaveUpper(pairs, high01, high23), 3);
  }
}

/// transpose_rows() of kUnits rows, as far as there are whole blocks of columns. Returns how
/// many columns those are.
template <typename T>
HWY_INLINE std::int64_t transpose_whole_blocks(Panels<T> panels, std::int64_t columns, T* to) {
  std::int64_t k = 0;
  for (; k + kBlockColumns<T> <= columns; k += kBlockColumns<T>) {
    transpose_block<T>(panels.column(k), to + k * kPanelColumns<T>);
  }
  return k;
}
#endif

/// to[k * kPanelColumns + i] = row i, column k of panels, for k < columns and i < rows; the
/// places up to i = kMost, a multiple of kUnits, are zeroed.
template <std::int64_t kMost, typename T>
HWY_INLINE void transpose_rows(Panels<T> panels, std::int64_t columns, std::int64_t rows, T* to) {
  for (std::int64_t first = 0; first < kMost; first += kUnits<T>) {
    const Panels<T> from = panels.from_row(first);
    const std::int64_t some = std::clamp<std::int64_t>(rows - first, 0, kUnits<T>);
    std::int64_t k = some == kUnits<T> ? transpose_whole_blocks(from, columns, to + first) : 0;
    for (; k < columns; ++k) {
      T* column = to + first + k * kPanelColumns<T>;
      for (std::int64_t i = 0; i < some; ++i) column[i] = from.from_row(i).column(k)[0];
      std::fill(column + some, column + kUnits<T>, T{});
    }
  }
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
