#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linear_pack.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>

#include "linear_pack.h"
#include "panels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void pack(const LinearShape& shape, const T* weight, const T* bias, T* packed) {
  const LinearPackedLayout layout(shape, kUnits<T>);
  const Panels<T> inputs{packed + layout.input_panels(), layout.input_stride()};
  for (std::int64_t row = 0; row < shape.output; ++row) {
    copy_to_row(weight + row * shape.input, shape.input, inputs.from_row(row), 0);
    clear_row_rest(inputs.from_row(row), shape.input);
  }
  const Panels<T> outputs{packed, layout.output_stride()};
  for (std::int64_t first = 0; first < shape.output; first += kPanelColumns<T>) {
    transpose_rows<kPanelColumns<T>>(inputs.from_row(first), shape.input,
                                     std::min(kPanelColumns<T>, shape.output - first),
                                     outputs.column(first));
  }
  std::copy_n(bias, shape.output, packed + layout.bias());
  std::fill(packed + layout.size(), packed + LinearPackedLayout(shape, kMostUnits).size(), T{});
}

void pack_float(const LinearShape& s, const float* weight, const float* bias, float* packed) {
  pack(s, weight, bias, packed);
}
void pack_double(const LinearShape& s, const double* weight, const double* bias, double* packed) {
  pack(s, weight, bias, packed);
}

}  // namespace
}  // namespace passel::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace passel::kernels {
namespace {
HWY_EXPORT(pack_float);
HWY_EXPORT(pack_double);
}  // namespace

std::size_t linear_packed_size(const LinearShape& shape) noexcept {
  return static_cast<std::size_t>(LinearPackedLayout(shape, kMostUnits).size());
}

std::size_t linear_backward_workspace(const LinearShape& shape) noexcept {
  return static_cast<std::size_t>(LinearBackwardLayout(shape).size());
}

void pack_linear(const LinearShape& shape, const float* weight, const float* bias, float* packed) {
  HWY_DYNAMIC_DISPATCH(pack_float)(shape, weight, bias, packed);
}

void pack_linear(const LinearShape& shape, const double* weight, const double* bias,
                 double* packed) {
  HWY_DYNAMIC_DISPATCH(pack_double)(shape, weight, bias, packed);
}

}  // namespace passel::kernels
#endif
