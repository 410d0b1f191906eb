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

LinearOutput run_layer(const at::Tensor& x_in, const at::Tensor& weight_in,
                       const at::Tensor& bias_in) {
  const at::Tensor x = x_in.contiguous(), weight = weight_in.contiguous(),
                   bias = bias_in.contiguous();
  const kernels::LinearShape shape{
      .batch = x.size(0), .input = x.size(1), .output = weight.size(0)};
  const at::Tensor output = at::empty({shape.batch, shape.output}, x.options());
  const at::Tensor packed =
      at::empty({packed_linear_elements(shape.input, shape.output)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "linear_forward", [&] {
    kernels::linear_forward(
        shape, kernels::LinearForward<scalar_t>{.x = x.const_data_ptr<scalar_t>(),
                                                .weight = weight.const_data_ptr<scalar_t>(),
                                                .bias = bias.const_data_ptr<scalar_t>(),
                                                .output = output.mutable_data_ptr<scalar_t>(),
                                                .packed = packed.mutable_data_ptr<scalar_t>()});
  });
  return {output, packed};
}

}  // namespace

LinearOutput linear_forward_cpu(const at::Tensor& x_in, const at::Tensor& weight_in,
                                const at::Tensor& bias_in) {
  check_linear("linear", x_in, weight_in, bias_in);
  return run_layer(x_in, weight_in, bias_in);
}

LinearLoss cross_entropy_forward_cpu(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, const at::Tensor& target_in) {
  check_linear("linear_cross_entropy", x, weight, bias);
  check_labels(x, target_in);
  at::Tensor output, packed;
  std::tie(output, packed) = run_layer(x, weight, bias);
  const at::Tensor target = target_in.contiguous();
  const at::Tensor loss = at::empty({}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "cross_entropy", [&] {
    const auto* labels = target.const_data_ptr<std::int64_t>();
    const auto bad_row = kernels::cross_entropy(
        output.size(0), output.size(1),
        kernels::CrossEntropy<scalar_t>{.logits = output.const_data_ptr<scalar_t>(),
                                        .target = labels,
                                        .slopes = output.mutable_data_ptr<scalar_t>(),
                                        .loss = loss.mutable_data_ptr<scalar_t>()});
    TORCH_CHECK_INDEX(!bad_row, "linear_cross_entropy expected labels in [0, ", output.size(1),
                      "), got ", labels[*bad_row], " in row ", *bad_row);
  });
  return {loss, output, packed};
}

LinearLoss mse_forward_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& target_in) {
  check_linear("linear_mse", x, weight, bias);
  check_values(x, weight, target_in);
  at::Tensor output, packed;
  std::tie(output, packed) = run_layer(x, weight, bias);
  const at::Tensor target = target_in.contiguous();
  const at::Tensor loss = at::empty({}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "squared_error", [&] {
    kernels::squared_error(output.numel(), kernels::SquaredError<scalar_t>{
                                               .output = output.const_data_ptr<scalar_t>(),
                                               .target = target.const_data_ptr<scalar_t>(),
                                               .slopes = output.mutable_data_ptr<scalar_t>(),
                                               .loss = loss.mutable_data_ptr<scalar_t>()});
  });
  return {loss, output, packed};
}

LinearGrads linear_backward_cpu(const std::optional<at::Tensor>& saved_x,
                                const std::optional<at::Tensor>& packed_in,
                                const at::Tensor& grad_output_in,
                                const std::optional<at::Tensor>& scale, std::int64_t input,
                                LinearMask mask) {
  check_linear_backward(saved_x, packed_in, grad_output_in, scale, input, mask);
  const at::Tensor grad_output = grad_output_in.contiguous();
  const at::Tensor x = mask[1] ? saved_x->contiguous() : at::Tensor();
  const at::Tensor packed = mask[0] ? packed_in->contiguous() : at::Tensor();
  const kernels::LinearShape shape{
      .batch = grad_output.size(0), .input = input, .output = grad_output.size(1)};
  const auto empty = [&](bool wanted, at::IntArrayRef sizes) {
    return wanted ? at::empty(sizes, grad_output.options()) : at::Tensor();
  };
  LinearGrads grads{empty(mask[0], {shape.batch, shape.input}),
                    empty(mask[1], {shape.output, shape.input}), empty(mask[2], {shape.output})};
  const at::Tensor workspace =
      at::empty({static_cast<std::int64_t>(kernels::linear_backward_workspace(shape))},
                grad_output.options());
  AT_DISPATCH_FLOATING_TYPES(grad_output.scalar_type(), "linear_backward", [&] {
    kernels::linear_backward(
        shape,
        kernels::LinearBackward<scalar_t>{
            .x = data_or_null<scalar_t>(x),
            .packed = data_or_null<scalar_t>(packed),
            .grad_output = grad_output.const_data_ptr<scalar_t>(),
            .scale = scale && scale->defined() ? *scale->const_data_ptr<scalar_t>() : scalar_t{1},
            .grad_x = mutable_data_or_null<scalar_t>(std::get<0>(grads)),
            .grad_weight = mutable_data_or_null<scalar_t>(std::get<1>(grads)),
            .grad_bias = mutable_data_or_null<scalar_t>(std::get<2>(grads)),
            .workspace = workspace.mutable_data_ptr<scalar_t>()});
  });
  return grads;
}

}  // namespace passel::detail
