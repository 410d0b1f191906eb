// The matrix product tile that all products of the LLTM cell are made of,
// compiled once per instruction set (hence no #pragma once).
//
// An output element is one chain of fused multiply-adds over k, in order: its
// bits depend neither on the width of vectors nor on how rows are grouped.
//
// Every loop over a tile's sums is told to unroll: where one is not, GCC keeps the array
// in memory beside the registers and copies it there and back, 4 % of a tile of k = 224.
#if defined(PASSEL_KERNELS_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PASSEL_KERNELS_GEMM_TILE_INL_H
#undef PASSEL_KERNELS_GEMM_TILE_INL_H
#else
#define PASSEL_KERNELS_GEMM_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lltm_layout.h"
#include "panels-inl.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows of a tile: with 3 vectors a row, the accumulators fill the registers
/// that the vectors of B and one broadcast leave free (32 or 16 in all).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 8;
#else
inline constexpr int kTileRows = 4;
#endif
static_assert(kRowGrain % kTileRows == 0);

/// The left operand with its rows in memory as they are.
template <typename T>
struct RowMajor {
  const T* data;
  std::int64_t stride;

  HWY_INLINE const T& at(std::int64_t row, std::int64_t k) const { return data[row * stride + k]; }
  HWY_INLINE RowMajor from_row(std::int64_t row) const { return {data + row * stride, stride}; }
};

/// The left operand with its columns in memory: the transpose of rows there.
template <typename T>
struct ColumnMajor {
  const T* data;
  std::int64_t stride;

  HWY_INLINE const T& at(std::int64_t row, std::int64_t k) const { return data[k * stride + row]; }
  HWY_INLINE ColumnMajor from_row(std::int64_t row) const { return {data + row, stride}; }
};

/// sums[i][j] += A[i][k] * B[k][j] over k < depth, where vector j of B's row k
/// is at b + k * kPanelColumns + j * kUnits.
template <int kRows, int kVectors, class D, class Left, typename T = hn::TFromD<D>>
HWY_INLINE void accumulate(D d, hn::Vec<D> (&sums)[kRows][kVectors], Left a,
                           const T* HWY_RESTRICT b, std::int64_t depth) {
  for (std::int64_t k = 0; k < depth; ++k, b += kPanelColumns<T>) {
    hn::Vec<D> right[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) right[j] = hn::LoadU(d, b + j * kUnits<T>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const auto left = hn::Set(d, a.at(i, k));
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) sums[i][j] = mul_add(d, left, right[j], sums[i][j]);
    }
  }
}

/// The first `count` elements at p; the other lanes are zero.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const hn::TFromD<D>* p, std::size_t count) {
  if (count >= hn::Lanes(d)) return hn::LoadU(d, p);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[kLanes<D>] = {};
  std::copy_n(p, count, lanes);
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, p);
#endif
}

template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, hn::TFromD<D>* p, std::size_t count) {
  if (count >= hn::Lanes(d)) return hn::StoreU(v, d, p);
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN hn::TFromD<D> lanes[kLanes<D>];
  hn::Store(v, d, lanes);
  std::copy_n(lanes, count, p);
#else
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
#endif
}

/// Calls f(rows, first) over all rows, in tiles of kTileRows and then of 4, 2, 1;
/// `rows` is an integral constant.
template <int kRows = kTileRows, class F>
HWY_INLINE void for_each_row_tile(std::int64_t rows, F&& f, std::int64_t first = 0) {
  for (; first + kRows <= rows; first += kRows) f(std::integral_constant<int, kRows>(), first);
  if constexpr (kRows > 1) for_each_row_tile<kRows / 2>(rows, f, first);
}

template <typename T>
struct Output {
  T* data;
  std::int64_t stride;
  bool add;  // to what is there, instead of overwriting it
};

/// One tile of C = A B (+ C), of which `columns` columns are stored.
template <int kRows, int kVectors, typename T, class Left>
HWY_NOINLINE void product_tile(Left a, const T* b, std::int64_t depth, Output<T> c,
                               std::size_t columns) {
  const Units<T> d;
  hn::Vec<Units<T>> sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      sums[i][j] =
          c.add ? load_some(d, c.data + i * c.stride + j * kUnits<T>, columns - j * kUnits<T>)
                : hn::Zero(d);
    }
  }
  accumulate(d, sums, a, b, depth);
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) {
      store_some(sums[i][j], d, c.data + i * c.stride + j * kUnits<T>, columns - j * kUnits<T>);
    }
  }
}

/// Calls f(vectors, column, count) for the columns of each panel; `vectors` is an
/// integral constant.
template <typename T, class F>
HWY_INLINE void for_each_panel(std::int64_t columns, F&& f) {
  for (std::int64_t column = 0; column < columns; column += kPanelColumns<T>) {
    const std::int64_t count = std::min(kPanelColumns<T>, columns - column);
    if (count > 2 * kUnits<T>) {
      f(std::integral_constant<int, 3>(), column, count);
    } else if (count > kUnits<T>) {
      f(std::integral_constant<int, 2>(), column, count);
    } else {
      f(std::integral_constant<int, 1>(), column, count);
    }
  }
}

/// C [rows, columns] = A [rows, depth] B [depth, columns] (+ C).
template <class Left, typename T>
HWY_INLINE void product(Left a, std::int64_t rows, std::int64_t depth, Panels<const T> b,
                        std::int64_t columns, Output<T> c) {
  for_each_panel<T>(columns, [&](auto vectors, std::int64_t column, std::int64_t count) HWY_ATTR {
    for_each_row_tile(rows, [&](auto tile, std::int64_t row) HWY_ATTR {
      product_tile<tile(), vectors()>(a.from_row(row), b.column(column), depth,
                                      Output<T>{c.data + row * c.stride + column, c.stride, c.add},
                                      static_cast<std::size_t>(count));
    });
  });
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
