#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "linear_forward.cc"
#include "simd_targets.h"
// Between these two: Highway includes this file once per instruction set.
#include <hwy/foreach_target.h>
// Highway's own order of includes.
#include <hwy/highway.h>

#include <algorithm>

#include "gemm_tile-inl.h"
#include "linear_pack.h"
#include "passel/kernels/linear_loss.h"
#include "settle_isa.h"

HWY_BEFORE_NAMESPACE();
namespace passel::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE void forward(const LinearShape& s, const LinearForward<T>& a) {
  const LinearPackedLayout layout(s, kUnits<T>);
  const T* bias = a.packed + layout.bias();
  for (std::int64_t b = 0; b < s.batch; ++b) std::copy_n(bias, s.output, a.output + b * s.output);
  product(RowMajor<T>{a.x, s.input}, s.batch, s.input,
          Panels<const T>{a.packed, layout.output_stride()}, s.output,
          Output<T>{a.output, s.output, true});
}

void forward_float(const LinearShape& s, const LinearForward<float>& a) {
  forward(s, a);
}
void forward_double(const LinearShape& s, const LinearForward<double>& a) {
  forward(s, a);
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

void linear_forward(const LinearShape& shape, const LinearForward<float>& arrays) noexcept {
  settle_isa();
  pack_linear(shape, arrays.weight, arrays.bias, arrays.packed);
  HWY_DYNAMIC_DISPATCH(forward_float)(shape, arrays);
}

void linear_forward(const LinearShape& shape, const LinearForward<double>& arrays) noexcept {
  settle_isa();
  pack_linear(shape, arrays.weight, arrays.bias, arrays.packed);
  HWY_DYNAMIC_DISPATCH(forward_double)(shape, arrays);
}

}  // namespace passel::kernels
#endif
