#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linear_backward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include "gemm_tile-inl.h"
#include "linear_pack.h"
#include "panels-inl.h"
#include "passel/kernels/linear_loss.h"
#include "settle_isa.h"
#include "weight_gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void backward(const LinearShape& s, const LinearBackward<T>& a) {
  const LinearBackwardLayout layout(s);
  const RowMajor<T> grads{a.workspace, s.output};
  for (std::int64_t i = 0; i < s.batch * s.output; ++i) {
    a.workspace[i] = a.grad_output[i] * a.scale;
  }
  if (a.grad_bias != nullptr) bias_gradient(grads, s.batch, s.output, a.grad_bias);
  if (a.grad_weight != nullptr) {
    const Panels<T> panels{a.workspace + layout.panels(), layout.chunk_rows() * kPanelColumns<T>};
    const auto pack_inputs = [&](std::int64_t first, std::int64_t count) HWY_ATTR {
      for (std::int64_t i = 0; i < count; ++i) {
        copy_to_row(a.x + (first + i) * s.input, s.input, panels.from_row(i), 0);
        clear_row_rest(panels.from_row(i), s.input);
      }
    };
    weight_gradient(grads, s.batch, s.output, s.input, pack_inputs,
                    Panels<const T>{panels.data, panels.stride}, a.grad_weight);
  }
  if (a.grad_x != nullptr) {
    const LinearPackedLayout packed(s, kUnits<T>);
    product(grads, s.batch, s.output,
            Panels<const T>{a.packed + packed.input_panels(), packed.input_stride()}, s.input,
            Output<T>{a.grad_x, s.input, false});
  }
}

void backward_float(const LinearShape& s, const LinearBackward<float>& a) {
  backward(s, a);
}
void backward_double(const LinearShape& s, const LinearBackward<double>& a) {
  backward(s, a);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
}  // namespace

void linear_backward(const LinearShape& shape, const LinearBackward<float>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_float)(shape, arrays);
}

void linear_backward(const LinearShape& shape, const LinearBackward<double>& arrays) noexcept {
  settle_isa();
  HWY_DYNAMIC_DISPATCH(backward_double)(shape, arrays);
}

}  // namespace passel::kernels
#endif
