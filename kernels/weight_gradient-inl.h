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
#include "panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What at most kChunkRows rows give to outputs first .. last of grad_weight [outputs, inputs]:
/// grads' x, where grads is [rows, outputs] and x [rows, inputs], is added, or with `add` false
/// overwrites it.
template <typename T>
HWY_INLINE void add_weight_gradient(RowMajor<T> grads, Panels<const T> x, std::int64_t rows,
                                    std::int64_t first, std::int64_t last, std::int64_t inputs,
                                    bool add, T* grad_weight) {
  product(ColumnMajor<T>{grads.data + first, grads.stride}, last - first, rows, x, inputs,
          Output<T>{grad_weight + first * inputs, inputs, add});
}

/// Elements first .. last of grad_bias += the rows of grads, one after the other.
template <typename T>
HWY_INLINE void add_bias_gradient(RowMajor<T> grads, std::int64_t rows, std::int64_t first,
                                  std::int64_t last, T* grad_bias) {
  const Units<T> d;
  for (std::int64_t output = first; output < last; output += kUnits<T>) {
    const auto some = static_cast<std::size_t>(last - output);
    auto sum = load_some(d, grad_bias + output, some);
    for (std::int64_t i = 0; i < rows; ++i) {
      sum = hn::Add(sum, load_some(d, &grads.at(i, output), some));
    }
    store_some(sum, d, grad_bias + output, some);
  }
}

/// grad_weight [outputs, inputs] = grads' x, where grads is [rows, outputs] and
/// pack_inputs(first, count) packs rows of x as `panels`, at most kChunkRows at
/// a time. A chunk of rows continues the sums of the one before.
template <class PackInputs, typename T>
HWY_INLINE void weight_gradient(RowMajor<T> grads, std::int64_t rows, std::int64_t outputs,
                                std::int64_t inputs, PackInputs&& pack_inputs,
                                Panels<const T> panels, T* grad_weight) {
  if (rows == 0) std::fill_n(grad_weight, outputs * inputs, T{});
  for (std::int64_t first = 0; first < rows; first += kChunkRows) {
    const std::int64_t some = std::min(kChunkRows, rows - first);
    pack_inputs(first, some);
    add_weight_gradient(grads.from_row(first), panels, some, 0, outputs, inputs, first > 0,
                        grad_weight);
  }
}

/// grad_bias [outputs]: the rows of grads added up in order.
template <typename T>
HWY_INLINE void bias_gradient(RowMajor<T> grads, std::int64_t rows, std::int64_t outputs,
                              T* grad_bias) {
  std::fill_n(grad_bias, outputs, T{});
  add_bias_gradient(grads, rows, 0, outputs, grad_bias);
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
