// Sums over the rows of a batch: the gradients of a layer's weights and bias,
// compiled once per instruction set (hence no #pragma once).
#if defined(PASSEL_KERNELS_WEIGHT_GRADIENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PASSEL_KERNELS_WEIGHT_GRADIENT_INL_H
#undef PASSEL_KERNELS_WEIGHT_GRADIENT_INL_H
#else
#define PASSEL_KERNELS_WEIGHT_GRADIENT_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "gemm_tile-inl.h"
#include "lltm_layout.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Columns first .. first + columns of `count` rows, packed as [count][kRowGroup].
template <typename T>
void pack_row_group(RowMajor<T> from, std::int64_t columns, std::int64_t count, T* group) {
  for (std::int64_t i = 0; i < count; ++i, group += kRowGroup) {
    T* rest = std::copy_n(from.data + i * from.stride, columns, group);
    std::fill(rest, group + kRowGroup, T{});
  }
}

/// Memory that weight_gradient() packs its operands into, a chunk of rows at a time.
template <typename T>
struct GradientBuffers {
  T* group;   // [chunk_rows][kRowGroup]
  T* panels;  // [inputs / kPanelColumns][chunk_rows][kPanelColumns]
  std::int64_t chunk_rows;
};

/// grad_weight [outputs, inputs] = grads' x, where grads is [rows, outputs] and
/// pack_inputs(first, count) packs rows of x as panels. A chunk of rows continues
/// the sums of the one before.
template <class D, class PackInputs, typename T = hn::TFromD<D>>
HWY_INLINE void weight_gradient(D d, RowMajor<T> grads, std::int64_t rows, std::int64_t outputs,
                                std::int64_t inputs, PackInputs&& pack_inputs,
                                const GradientBuffers<T>& buffers, T* grad_weight) {
  if (rows == 0) std::fill_n(grad_weight, outputs * inputs, T{});
  const Panels<T> panels{buffers.panels, buffers.chunk_rows * kPanelColumns};
  for (std::int64_t first = 0; first < rows; first += buffers.chunk_rows) {
    const std::int64_t depth = std::min(buffers.chunk_rows, rows - first);
    pack_inputs(first, depth);
    for (std::int64_t output = 0; output < outputs; output += kRowGroup) {
      const std::int64_t some = std::min(kRowGroup, outputs - output);
      pack_row_group(RowMajor<T>{grads.data + first * grads.stride + output, grads.stride}, some,
                     depth, buffers.group);
      product(d, RowGroup<T>{buffers.group}, some, depth, panels, inputs,
              Output<T>{grad_weight + output * inputs, inputs, first > 0});
    }
  }
}

/// grad_bias [outputs]: the rows of grads added up in order.
template <typename T>
void bias_gradient(RowMajor<T> grads, std::int64_t rows, std::int64_t outputs, T* grad_bias) {
  std::fill_n(grad_bias, outputs, T{});
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = grads.data + i * grads.stride;
    for (std::int64_t j = 0; j < outputs; ++j) grad_bias[j] += row[j];
  }
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
