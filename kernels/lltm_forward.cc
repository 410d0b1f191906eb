#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lltm_forward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include "gemm_tile-inl.h"
#include "lltm_layout.h"
#include "lltm_pack.h"
#include "passel/kernels/lltm.h"
#include "settle_isa.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// One step of the cell: the arrays of lltm_forward() at that step.
template <typename T>
struct Step {
  const T* x;
  const T* h;
  const T* c;
  T* hidden;
  T* cells;
  T* gates;

  Step(const LltmShape& s, const LltmForward<T>& arrays, std::int64_t t) {
    const std::int64_t state = s.batch * s.state;
    x = arrays.x + t * s.batch * s.input;
    h = t == 0 ? arrays.h0 : arrays.hidden + (t - 1) * state;
    c = t == 0 ? arrays.c0 : arrays.cells + (t - 1) * state;
    hidden = arrays.hidden + t * state;
    cells = arrays.cells + t * state;
    gates = arrays.gates + t * 3 * state;
  }
};

/// Activations, cell and hidden state of one row's units, from its three gates.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void finish_units(D d, const hn::Vec<D> (&z)[3], const Step<T>& step, std::int64_t row,
                             std::int64_t state, std::int64_t unit, std::size_t count) {
  const auto input = sigmoid(d, z[0]);
  const auto output = sigmoid(d, z[1]);
  const auto candidate = elu(d, z[2]);
  const std::int64_t at = row * state + unit;
  const auto cell = mul_add(d, candidate, input, load_some(d, step.c + at, count));
  T* gates = step.gates + row * 3 * state + unit;
  store_some(input, d, gates, count);
  store_some(output, d, gates + state, count);
  store_some(candidate, d, gates + 2 * state, count);
  store_some(cell, d, step.cells + at, count);
  store_some(hn::Mul(tanh(d, cell), output), d, step.hidden + at, count);
}

/// kRows rows by one vector of units; `block` points to these units' biases.
template <int kRows, class D, typename T = hn::TFromD<D>>
HWY_NOINLINE void step_tile(D d, const LltmShape& s, const Step<T>& step, const T* block,
                            std::int64_t row, std::int64_t unit) {
  hn::Vec<D> sums[kRows][3];
  for (int gate = 0; gate < 3; ++gate) {
    const auto bias = hn::LoadU(d, block + gate * kUnitBlock);
    for (int i = 0; i < kRows; ++i) sums[i][gate] = bias;
  }
  const T* weights = block + kPanelColumns;
  accumulate<kUnitBlock>(d, sums, RowMajor<T>{step.h + row * s.state, s.state}, weights,
                         kPanelColumns, s.state);
  accumulate<kUnitBlock>(d, sums, RowMajor<T>{step.x + row * s.input, s.input},
                         weights + s.state * kPanelColumns, kPanelColumns, s.input);
  for (int i = 0; i < kRows; ++i) {
    finish_units(d, sums[i], step, row + i, s.state, unit,
                 static_cast<std::size_t>(s.state - unit));
  }
}

template <typename T>
HWY_INLINE void forward(const LltmShape& s, const LltmForward<T>& arrays) {
  const hn::CappedTag<T, kUnitBlock> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t block_stride = PackedLayout(s).block_stride();
  for (std::int64_t t = 0; t < s.steps; ++t) {
    const Step<T> step(s, arrays, t);
    for (std::int64_t unit = 0; unit < s.state; unit += lanes) {
      const T* block = arrays.packed + unit / kUnitBlock * block_stride + unit % kUnitBlock;
      for_each_row_tile(s.batch, [&](auto rows, std::int64_t row)
                                     HWY_ATTR { step_tile<rows()>(d, s, step, block, row, unit); });
    }
  }
}

void forward_float(const LltmShape& s, const LltmForward<float>& arrays) {
  forward(s, arrays);
}
void forward_double(const LltmShape& s, const LltmForward<double>& arrays) {
  forward(s, arrays);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
}  // namespace

void lltm_forward(const LltmShape& shape, const LltmForward<float>& arrays) noexcept {
  pack_weights(shape, arrays.weight, arrays.bias, arrays.packed);
  settle_isa();
  HWY_DYNAMIC_DISPATCH(forward_float)(shape, arrays);
}

void lltm_forward(const LltmShape& shape, const LltmForward<double>& arrays) noexcept {
  pack_weights(shape, arrays.weight, arrays.bias, arrays.packed);
  settle_isa();
  HWY_DYNAMIC_DISPATCH(forward_double)(shape, arrays);
}

}  // namespace passel::kernels
#endif
