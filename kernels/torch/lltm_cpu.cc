#include <ATen/Dispatch.h>
#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>

#include "lltm_ops.h"
#include "passel/kernels/lltm.h"

namespace passel::detail {
namespace {

kernels::LltmShape shape_of(const at::Tensor& x, const at::Tensor& h0) {
  return {.steps = x.size(0), .batch = x.size(1), .input = x.size(2), .state = h0.size(1)};
}

template <typename T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

template <typename T>
T* mutable_data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

at::Tensor contiguous_or_undefined(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.contiguous() : tensor;
}

}  // namespace

void check_lltm_arguments(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& h0, const at::Tensor& c0) {
  TORCH_CHECK(x.dim() == 3 && h0.dim() == 2, "lltm expected x [T, B, I] and h0 [B, S], got x ",
              x.sizes(), " and h0 ", h0.sizes());
  const auto batch = x.size(1), input = x.size(2), state = h0.size(1);
  TORCH_CHECK(h0.size(0) == batch, "lltm expected h0 [", batch, ", S] for x ", x.sizes(), ", got ",
              h0.sizes());
  TORCH_CHECK(c0.sizes() == h0.sizes(), "lltm expected c0 ", h0.sizes(), " as h0, got ",
              c0.sizes());
  TORCH_CHECK(weight.dim() == 2 && weight.size(0) == 3 * state && weight.size(1) == state + input,
              "lltm expected weight [3S, S + I] = [", 3 * state, ", ", state + input, "], got ",
              weight.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == 3 * state, "lltm expected bias [3S] = [",
              3 * state, "], got ", bias.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble,
              "lltm expected float or double tensors, got ", x.scalar_type());
  for (const at::Tensor& other : {weight, bias, h0, c0}) {
    TORCH_CHECK(other.scalar_type() == x.scalar_type(), "lltm expected all tensors of type ",
                x.scalar_type(), " as x, got ", other.scalar_type());
    TORCH_CHECK(other.device().is_cpu(), "lltm expected CPU tensors, got ", other.device());
  }
}

LltmSaved lltm_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& h0, const at::Tensor& c0) {
  const kernels::LltmShape shape = shape_of(x, h0);
  const auto options = x.options();
  LltmSaved saved{
      .hidden = at::empty({shape.steps, shape.batch, shape.state}, options),
      .cells = at::empty({shape.steps, shape.batch, shape.state}, options),
      .gates = at::empty({shape.steps, shape.batch, 3 * shape.state}, options),
      .packed = at::empty({static_cast<std::int64_t>(kernels::lltm_packed_size(shape))}, options)};
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "lltm_forward", [&] {
    kernels::lltm_forward(
        shape, kernels::LltmForward<scalar_t>{.x = x.const_data_ptr<scalar_t>(),
                                              .weight = weight.const_data_ptr<scalar_t>(),
                                              .bias = bias.const_data_ptr<scalar_t>(),
                                              .h0 = h0.const_data_ptr<scalar_t>(),
                                              .c0 = c0.const_data_ptr<scalar_t>(),
                                              .hidden = saved.hidden.mutable_data_ptr<scalar_t>(),
                                              .cells = saved.cells.mutable_data_ptr<scalar_t>(),
                                              .gates = saved.gates.mutable_data_ptr<scalar_t>(),
                                              .packed = saved.packed.mutable_data_ptr<scalar_t>()});
  });
  return saved;
}

std::array<at::Tensor, 5> lltm_backward(const at::Tensor& x, const at::Tensor& h0,
                                        const at::Tensor& c0, const LltmSaved& saved,
                                        const at::Tensor& grad_hidden,
                                        const at::Tensor& grad_h_last,
                                        const at::Tensor& grad_c_last, const LltmNeeds& needs) {
  const kernels::LltmShape shape = shape_of(x, h0);
  const auto options = x.options();
  const std::array<std::vector<std::int64_t>, 5> sizes = {
      x.sizes().vec(),
      {3 * shape.state, shape.state + shape.input},
      {3 * shape.state},
      h0.sizes().vec(),
      c0.sizes().vec()};
  std::array<at::Tensor, 5> grads;
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (needs[i]) grads[i] = at::empty(sizes[i], options);
  }
  const at::Tensor from_hidden = contiguous_or_undefined(grad_hidden);
  const at::Tensor from_h_last = contiguous_or_undefined(grad_h_last);
  const at::Tensor from_c_last = contiguous_or_undefined(grad_c_last);
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::lltm_backward_workspace(shape))}, options);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "lltm_backward", [&] {
    kernels::lltm_backward(shape, kernels::LltmBackward<scalar_t>{
                                      .x = x.const_data_ptr<scalar_t>(),
                                      .h0 = h0.const_data_ptr<scalar_t>(),
                                      .c0 = c0.const_data_ptr<scalar_t>(),
                                      .hidden = saved.hidden.const_data_ptr<scalar_t>(),
                                      .cells = saved.cells.const_data_ptr<scalar_t>(),
                                      .gates = saved.gates.const_data_ptr<scalar_t>(),
                                      .packed = saved.packed.const_data_ptr<scalar_t>(),
                                      .grad_hidden = data_or_null<scalar_t>(from_hidden),
                                      .grad_h_last = data_or_null<scalar_t>(from_h_last),
                                      .grad_c_last = data_or_null<scalar_t>(from_c_last),
                                      .grad_x = mutable_data_or_null<scalar_t>(grads[0]),
                                      .grad_weight = mutable_data_or_null<scalar_t>(grads[1]),
                                      .grad_bias = mutable_data_or_null<scalar_t>(grads[2]),
                                      .grad_h0 = mutable_data_or_null<scalar_t>(grads[3]),
                                      .grad_c0 = mutable_data_or_null<scalar_t>(grads[4]),
                                      .workspace = workspace.mutable_data_ptr<scalar_t>()});
  });
  return grads;
}

}  // namespace passel::detail
