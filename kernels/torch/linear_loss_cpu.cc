#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include "linear_loss_ops.h"
#include "passel/kernels/linear_loss.h"

namespace passel::detail {
namespace {

template <typename T>
const T* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<T>() : nullptr;
}

template <typename T>
T* mutable_data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.mutable_data_ptr<T>() : nullptr;
}

}  // namespace

LinearOutput linear_forward(const at::Tensor& x_in, const at::Tensor& weight_in,
                            const at::Tensor& bias_in) {
  const at::Tensor x = x_in.contiguous();
  const at::Tensor weight = weight_in.contiguous();
  const at::Tensor bias = bias_in.contiguous();
  const kernels::LinearShape shape{
      .batch = x.size(0), .input = x.size(1), .output = weight.size(0)};
  LinearOutput result{
      .output = at::empty({shape.batch, shape.output}, x.options()),
      .packed =
          at::empty({static_cast<std::int64_t>(kernels::linear_packed_size(shape))}, x.options())};
  if (x.is_meta()) return result;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "linear_forward", [&] {
    kernels::linear_forward(shape, kernels::LinearForward<scalar_t>{
                                       .x = x.const_data_ptr<scalar_t>(),
                                       .weight = weight.const_data_ptr<scalar_t>(),
                                       .bias = bias.const_data_ptr<scalar_t>(),
                                       .output = result.output.mutable_data_ptr<scalar_t>(),
                                       .packed = result.packed.mutable_data_ptr<scalar_t>()});
  });
  return result;
}

LinearLoss cross_entropy(const at::Tensor& output, const at::Tensor& target_in, bool with_slopes) {
  check_labels(output, target_in);
  const at::Tensor target = target_in.contiguous();
  LinearLoss result{.loss = at::empty({}, output.options()),
                    .slopes = with_slopes ? output : at::Tensor()};
  if (output.is_meta()) return result;
  AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "cross_entropy", [&] {
    const auto* labels = target.const_data_ptr<std::int64_t>();
    const auto bad_row = kernels::cross_entropy(
        output.size(0), output.size(1),
        kernels::CrossEntropy<scalar_t>{.logits = output.const_data_ptr<scalar_t>(),
                                        .target = labels,
                                        .slopes = mutable_data_or_null<scalar_t>(result.slopes),
                                        .loss = result.loss.mutable_data_ptr<scalar_t>()});
    TORCH_CHECK_INDEX(!bad_row, "linear_cross_entropy expected labels in [0, ", output.size(1),
                      "), got ", labels[*bad_row], " in row ", *bad_row);
  });
  return result;
}

LinearLoss squared_error(const at::Tensor& output, const at::Tensor& target_in, bool with_slopes) {
  check_values(output, target_in);
  const at::Tensor target = target_in.contiguous();
  LinearLoss result{.loss = at::empty({}, output.options()),
                    .slopes = with_slopes ? output : at::Tensor()};
  if (output.is_meta()) return result;
  AT_DISPATCH_FLOATING_TYPES(output.scalar_type(), "squared_error", [&] {
    kernels::squared_error(
        output.numel(),
        kernels::SquaredError<scalar_t>{.output = output.const_data_ptr<scalar_t>(),
                                        .target = target.const_data_ptr<scalar_t>(),
                                        .slopes = mutable_data_or_null<scalar_t>(result.slopes),
                                        .loss = result.loss.mutable_data_ptr<scalar_t>()});
  });
  return result;
}

std::array<at::Tensor, 3> linear_backward(const LinearGradient& from,
                                          const std::array<bool, 3>& needs) {
  const kernels::LinearShape shape{
      .batch = from.grad_output.size(0), .input = from.input, .output = from.grad_output.size(1)};
  const auto options = from.grad_output.options();
  std::array<at::Tensor, 3> grads;
  if (needs[0]) grads[0] = at::empty({shape.batch, shape.input}, options);
  if (needs[1]) grads[1] = at::empty({shape.output, shape.input}, options);
  if (needs[2]) grads[2] = at::empty({shape.output}, options);
  if (from.grad_output.is_meta()) return grads;
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::linear_backward_workspace(shape))}, options);
  AT_DISPATCH_FLOATING_TYPES(from.grad_output.scalar_type(), "linear_backward", [&] {
    kernels::linear_backward(
        shape,
        kernels::LinearBackward<scalar_t>{
            .x = data_or_null<scalar_t>(from.x),
            .packed = data_or_null<scalar_t>(from.packed),
            .grad_output = from.grad_output.const_data_ptr<scalar_t>(),
            .scale = from.scale.defined() ? *from.scale.const_data_ptr<scalar_t>() : scalar_t{1},
            .grad_x = mutable_data_or_null<scalar_t>(grads[0]),
            .grad_weight = mutable_data_or_null<scalar_t>(grads[1]),
            .grad_bias = mutable_data_or_null<scalar_t>(grads[2]),
            .workspace = workspace.mutable_data_ptr<scalar_t>()});
  });
  return grads;
}

}  // namespace passel::detail
