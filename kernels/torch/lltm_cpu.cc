#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include "lltm_ops.h"
#include "lltm_threads.h"
#include "passel/kernels/isa.h"
#include "passel/kernels/lltm.h"

// From tensors on the CPU to the pointers of passel/kernels/lltm.h.
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

at::Tensor contiguous_or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : at::Tensor();
}

at::Tensor empty_like_if(bool wanted, const at::Tensor& argument) {
  return wanted ? at::empty(argument.sizes(), argument.options()) : at::Tensor();
}

}  // namespace

LltmForwardResult lltm_forward_cpu(const at::Tensor& x_in, const at::Tensor& weight_in,
                                   const at::Tensor& bias_in, const at::Tensor& h0_in,
                                   const at::Tensor& c0_in) {
  check_lltm_forward(x_in, weight_in, bias_in, h0_in, c0_in);
  kernels::isa();  // throws if PASSEL_ISA is wrong, which a kernel cannot
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous(),
                   bias = bias_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous();
  const kernels::LltmShape shape = shape_of(x, h0);
  const auto options = x.options();
  const at::Tensor hidden = at::empty({shape.steps, shape.batch, shape.state}, options);
  const at::Tensor cells = at::empty({shape.steps, shape.batch, shape.state}, options);
  const at::Tensor gates = at::empty({shape.steps, shape.batch, 3 * shape.state}, options);
  const at::Tensor packed = at::empty({packed_elements(x, h0)}, options);
  const kernels::LltmPlan plan{.threads = lltm_threads(shape)};
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "lltm_forward", [&] {
    kernels::lltm_forward(
        shape,
        kernels::LltmForward<scalar_t>{.x = x.const_data_ptr<scalar_t>(),
                                       .weight = weight.const_data_ptr<scalar_t>(),
                                       .bias = bias.const_data_ptr<scalar_t>(),
                                       .h0 = h0.const_data_ptr<scalar_t>(),
                                       .c0 = c0.const_data_ptr<scalar_t>(),
                                       .hidden = hidden.mutable_data_ptr<scalar_t>(),
                                       .cells = cells.mutable_data_ptr<scalar_t>(),
                                       .gates = gates.mutable_data_ptr<scalar_t>(),
                                       .packed = packed.mutable_data_ptr<scalar_t>()},
        plan);
  });
  return {hidden, last_step(hidden, h0), last_step(cells, c0), cells, gates, packed};
}

LltmGrads lltm_backward_cpu(const at::Tensor& x_in, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& h0_in,
                            const at::Tensor& c0_in, const at::Tensor& hidden_in,
                            const at::Tensor& cells_in, const at::Tensor& gates_in,
                            const at::Tensor& packed_in,
                            const std::optional<at::Tensor>& grad_hidden,
                            const std::optional<at::Tensor>& grad_h_last,
                            const std::optional<at::Tensor>& grad_c_last, LltmMask mask) {
  check_lltm_forward(x_in, weight, bias, h0_in, c0_in);
  check_lltm_backward(x_in, h0_in, hidden_in, cells_in, gates_in, packed_in, grad_hidden,
                      grad_h_last, grad_c_last);
  const at::Tensor x = x_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous(),
                   hidden = hidden_in.contiguous(), cells = cells_in.contiguous(),
                   gates = gates_in.contiguous(), packed = packed_in.contiguous();
  const at::Tensor from_hidden = contiguous_or_undefined(grad_hidden);
  const at::Tensor from_h_last = contiguous_or_undefined(grad_h_last);
  const at::Tensor from_c_last = contiguous_or_undefined(grad_c_last);
  LltmGrads grads{empty_like_if(mask[0], x), empty_like_if(mask[1], weight),
                  empty_like_if(mask[2], bias), empty_like_if(mask[3], h0),
                  empty_like_if(mask[4], c0)};
  const kernels::LltmShape shape = shape_of(x, h0);
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::lltm_backward_workspace(shape))}, x.options());
  const kernels::LltmPlan plan{.threads = lltm_threads(shape)};
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "lltm_backward", [&] {
    kernels::lltm_backward(shape,
                           kernels::LltmBackward<scalar_t>{
                               .x = x.const_data_ptr<scalar_t>(),
                               .h0 = h0.const_data_ptr<scalar_t>(),
                               .c0 = c0.const_data_ptr<scalar_t>(),
                               .hidden = hidden.const_data_ptr<scalar_t>(),
                               .cells = cells.const_data_ptr<scalar_t>(),
                               .gates = gates.const_data_ptr<scalar_t>(),
                               .packed = packed.const_data_ptr<scalar_t>(),
                               .grad_hidden = data_or_null<scalar_t>(from_hidden),
                               .grad_h_last = data_or_null<scalar_t>(from_h_last),
                               .grad_c_last = data_or_null<scalar_t>(from_c_last),
                               .grad_x = mutable_data_or_null<scalar_t>(std::get<0>(grads)),
                               .grad_weight = mutable_data_or_null<scalar_t>(std::get<1>(grads)),
                               .grad_bias = mutable_data_or_null<scalar_t>(std::get<2>(grads)),
                               .grad_h0 = mutable_data_or_null<scalar_t>(std::get<3>(grads)),
                               .grad_c0 = mutable_data_or_null<scalar_t>(std::get<4>(grads)),
                               .workspace = workspace.mutable_data_ptr<scalar_t>()},
                           plan);
  });
  return grads;
}

}  // namespace passel::detail
