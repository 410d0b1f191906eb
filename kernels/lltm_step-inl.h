// One step of the LLTM cell, compiled once per instruction set (hence no #pragma
// once): the forward pass runs it, and the backward pass where it computes again
// what was not kept.
#if defined(PASSEL_KERNELS_LLTM_STEP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef PASSEL_KERNELS_LLTM_STEP_INL_H
#undef PASSEL_KERNELS_LLTM_STEP_INL_H
#else
#define PASSEL_KERNELS_LLTM_STEP_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "gemm_tile-inl.h"
#include "lltm_layout.h"
#include "passel/kernels/lltm.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Arrays of one step, all rows of the batch.
template <typename T>
struct Step {
  const T* x;  // [B, I]
  const T* h;  // [B, S] before the step
  const T* c;  // [B, S] before the step
  T* cells;    // [B, S] c after the step; may be `c` itself
  // What is not wanted is nullptr.
  T* hidden;    // [B, S] h after the step
  T* squashed;  // [B, S] tanh(c) after the step
  T* gates;     // [B, 3S] after their activations
};

/// Rows that are finished side by side: an activation is a long chain of operations, which
/// those of other rows overlap.
inline constexpr int kRowsAtOnce = 2;

/// Activations, cell and hidden state of kRows rows' units; `z` has their gates.
template <int kRows, class D, typename T = hn::TFromD<D>>
HWY_INLINE void finish_units(D d, hn::Vec<D> (*z)[3], const Step<T>& step, std::int64_t row,
                             std::int64_t state, std::int64_t unit, std::size_t count) {
  constexpr int kInput = 0, kOutput = 1, kCandidate = 2;
  hn::Vec<D> cells[kRows];
  const auto keep = [&](int gate) HWY_ATTR {
    if (step.gates == nullptr) return;
    T* gates = step.gates + (row * 3 + gate) * state + unit;
    for (int i = 0; i < kRows; ++i) store_some(z[i][gate], d, gates + 3 * state * i, count);
  };
  for (int i = 0; i < kRows; ++i) z[i][kInput] = sigmoid(d, z[i][kInput]);
  keep(kInput);
  for (int i = 0; i < kRows; ++i) z[i][kCandidate] = elu(d, z[i][kCandidate]);
  keep(kCandidate);
  for (int i = 0; i < kRows; ++i) {
    const std::int64_t at = (row + i) * state + unit;
    cells[i] = mul_add(d, z[i][kCandidate], z[i][kInput], load_some(d, step.c + at, count));
    store_some(cells[i], d, step.cells + at, count);
  }
  for (int i = 0; i < kRows; ++i) z[i][kOutput] = sigmoid(d, z[i][kOutput]);
  keep(kOutput);
  for (int i = 0; i < kRows; ++i) {
    const std::int64_t at = (row + i) * state + unit;
    const auto squashed = tanh(d, cells[i]);
    if (step.squashed != nullptr) store_some(squashed, d, step.squashed + at, count);
    if (step.hidden == nullptr) continue;
    store_some(hn::Mul(squashed, z[i][kOutput]), d, step.hidden + at, count);
  }
}

/// kRows rows by one vector of units; `block` points to these units' biases.
template <int kRows, typename T>
HWY_NOINLINE void step_tile(const LltmShape& s, const Step<T>& step, const T* block,
                            std::int64_t row, std::int64_t unit) {
  const Units<T> d;
  hn::Vec<Units<T>> sums[kRows][3];
#pragma GCC unroll 3
  for (int gate = 0; gate < 3; ++gate) {
    const auto bias = hn::LoadU(d, block + gate * kUnits<T>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) sums[i][gate] = bias;
  }
  const T* weights = block + kPanelColumns<T>;
  accumulate(d, sums, RowMajor<T>{step.h + row * s.state, s.state}, weights, s.state);
  accumulate(d, sums, RowMajor<T>{step.x + row * s.input, s.input},
             weights + s.state * kPanelColumns<T>, s.input);
  constexpr int kSome = std::min(kRows, kRowsAtOnce);
#pragma GCC unroll 4
  for (int i = 0; i < kRows; i += kSome) {
    finish_units<kSome>(d, sums + i, step, row + i, s.state, unit,
                        static_cast<std::size_t>(s.state - unit));
  }
}

/// Rows first .. last of one step.
template <typename T>
HWY_INLINE void run_step(const LltmShape& s, const Step<T>& step, const T* packed,
                         std::int64_t first, std::int64_t last) {
  const std::int64_t block_stride = PackedLayout(s, kUnits<T>).block_stride();
  for (std::int64_t unit = 0; unit < s.state; unit += kUnits<T>, packed += block_stride) {
    for_each_row_tile(
        last,
        [&](auto rows, std::int64_t row)
            HWY_ATTR { step_tile<rows()>(s, step, packed, row, unit); },
        first);
  }
}

}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
