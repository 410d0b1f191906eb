#include <ATen/ops/empty.h>

#include <cstddef>
#include <cstring>

#include "element_type.h"
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

at::Tensor contiguous_or_undefined(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor->contiguous() : at::Tensor();
}

kernels::LltmPlan plan_of(const kernels::LltmShape& shape, std::int64_t keep_every) {
  return {.keep_every = keep_every, .threads = lltm_threads(shape)};
}

at::Tensor sums_if(bool wanted, std::size_t count, const at::TensorOptions& options) {
  return wanted ? at::empty({static_cast<std::int64_t>(count)}, options) : at::Tensor();
}

/// The last [B, S] of dense h0, hidden, without the dispatches of ATen's select and clone, which
/// take longer than the copy.
at::Tensor last_hidden(const at::Tensor& h0, const at::Tensor& hidden) {
  at::Tensor last = at::empty(h0.sizes(), h0.options());
  const at::Tensor& from = hidden.size(0) == 0 ? h0 : hidden;
  if (last.numel() > 0) {
    const auto* end = static_cast<const std::byte*>(from.const_data_ptr()) + from.nbytes();
    std::memcpy(last.mutable_data_ptr(), end - last.nbytes(), last.nbytes());
  }
  return last;
}

/// A gradient in the type of sums, in which the kernels write it.
at::Tensor sums_like_if(bool wanted, const at::Tensor& argument, at::ScalarType sums) {
  return wanted ? at::empty(argument.sizes(), argument.options().dtype(sums)) : at::Tensor();
}

at::Tensor in_type_of(const at::Tensor& argument, const at::Tensor& gradient) {
  return gradient.defined() ? gradient.to(argument.scalar_type()) : gradient;
}

}  // namespace

LltmForwardResult lltm_forward_cpu(const at::Tensor& x_in, const at::Tensor& weight_in,
                                   const at::Tensor& bias_in, const at::Tensor& h0_in,
                                   const at::Tensor& c0_in, std::int64_t keep_every) {
  check_lltm_forward(x_in, weight_in, bias_in, h0_in, c0_in, keep_every);
  kernels::isa();  // throws if PASSEL_ISA is wrong, which a kernel cannot
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous(),
                   bias = bias_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous();
  const kernels::LltmShape shape = shape_of(x, h0);
  const kernels::LltmPlan plan = plan_of(shape, keep_every);
  const auto sums = c0.options();
  const at::Tensor hidden = at::empty({shape.steps, shape.batch, shape.state}, x.options());
  const at::Tensor c_last = at::empty({shape.batch, shape.state}, sums);
  const at::Tensor cells =
      at::empty({kernels::lltm_cells_kept(shape, plan), shape.batch, shape.state}, sums);
  const at::Tensor gates =
      at::empty({keep_every == 0 ? shape.steps : 0, shape.batch, 3 * shape.state}, sums);
  const at::Tensor packed = at::empty({packed_elements(x, h0)}, sums);
  const at::Tensor workspace = sums_if(at::isReducedFloatingType(x.scalar_type()),
                                       kernels::lltm_forward_workspace(shape), sums);
  with_element_type(x.scalar_type(), [&]<typename T>(std::type_identity<T>) {
    using Sum = typename kernels::SumOf<T>::type;
    kernels::lltm_forward(shape,
                          kernels::LltmForward<T>{.x = data_of<const T>(x),
                                                  .weight = data_of<const T>(weight),
                                                  .bias = data_of<const T>(bias),
                                                  .h0 = data_of<const T>(h0),
                                                  .c0 = data_of<const Sum>(c0),
                                                  .hidden = data_of<T>(hidden),
                                                  .c_last = data_of<Sum>(c_last),
                                                  .cells = data_of<Sum>(cells),
                                                  .gates = data_of<Sum>(gates),
                                                  .packed = data_of<Sum>(packed),
                                                  .workspace = data_of<Sum>(workspace)},
                          plan);
  });
  return {hidden, last_hidden(h0, hidden), c_last, cells, gates, packed};
}

LltmGrads lltm_backward_cpu(
    const at::Tensor& x_in, const at::Tensor& weight, const at::Tensor& bias,
    const at::Tensor& h0_in, const at::Tensor& c0_in, const at::Tensor& hidden_in,
    const at::Tensor& cells_in, const at::Tensor& gates_in, const at::Tensor& packed_in,
    const std::optional<at::Tensor>& grad_hidden, const std::optional<at::Tensor>& grad_h_last,
    const std::optional<at::Tensor>& grad_c_last, LltmMask mask, std::int64_t keep_every) {
  check_lltm_forward(x_in, weight, bias, h0_in, c0_in, keep_every);
  check_lltm_backward(x_in, h0_in, hidden_in, cells_in, gates_in, packed_in, grad_hidden,
                      grad_h_last, grad_c_last, keep_every);
  const at::Tensor x = x_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous(),
                   hidden = hidden_in.contiguous(), cells = cells_in.contiguous(),
                   gates = gates_in.contiguous(), packed = packed_in.contiguous();
  const at::Tensor from_hidden = contiguous_or_undefined(grad_hidden);
  const at::Tensor from_h_last = contiguous_or_undefined(grad_h_last);
  const at::Tensor from_c_last = contiguous_or_undefined(grad_c_last);
  const at::ScalarType sums = c0.scalar_type();
  const at::Tensor by_x = sums_like_if(mask[0], x, sums),
                   by_weight = sums_like_if(mask[1], weight, sums),
                   by_bias = sums_like_if(mask[2], bias, sums),
                   by_h0 = sums_like_if(mask[3], h0, sums), by_c0 = sums_like_if(mask[4], c0, sums);
  const kernels::LltmShape shape = shape_of(x, h0);
  const kernels::LltmPlan plan = plan_of(shape, keep_every);
  const at::Tensor workspace =
      sums_if(true, kernels::lltm_backward_workspace(shape, plan), c0.options());
  with_element_type(x.scalar_type(), [&]<typename T>(std::type_identity<T>) {
    using Sum = typename kernels::SumOf<T>::type;
    kernels::lltm_backward(shape,
                           kernels::LltmBackward<T>{.x = data_of<const T>(x),
                                                    .h0 = data_of<const T>(h0),
                                                    .c0 = data_of<const Sum>(c0),
                                                    .hidden = data_of<const T>(hidden),
                                                    .cells = data_of<const Sum>(cells),
                                                    .gates = data_of<const Sum>(gates),
                                                    .packed = data_of<const Sum>(packed),
                                                    .grad_hidden = data_of<const T>(from_hidden),
                                                    .grad_h_last = data_of<const T>(from_h_last),
                                                    .grad_c_last = data_of<const Sum>(from_c_last),
                                                    .grad_x = data_of<Sum>(by_x),
                                                    .grad_weight = data_of<Sum>(by_weight),
                                                    .grad_bias = data_of<Sum>(by_bias),
                                                    .grad_h0 = data_of<Sum>(by_h0),
                                                    .grad_c0 = data_of<Sum>(by_c0),
                                                    .workspace = data_of<Sum>(workspace)},
                           plan);
  });
  return {in_type_of(x, by_x), in_type_of(weight, by_weight), in_type_of(bias, by_bias),
          in_type_of(h0, by_h0), by_c0};
}

}  // namespace passel::detail
