#include <ATen/ops/empty.h>

#include "linear_loss_ops.h"

// Shapes without values, for tensors on the meta device and for tracing.
namespace passel::detail {
namespace {

at::Tensor output_of(const at::Tensor& x, const at::Tensor& weight) {
  return at::empty_symint({x.sym_size(0), weight.sym_size(0)}, x.options());
}

at::Tensor packed_of(const at::Tensor& weight) {
  return at::empty({packed_linear_elements(weight.sym_size(1), weight.sym_size(0))},
                   weight.options());
}

LinearLoss loss_of(const at::Tensor& x, const at::Tensor& weight) {
  return {at::empty({}, x.options()), output_of(x, weight), packed_of(weight)};
}

}  // namespace

LinearOutput linear_forward_meta(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias) {
  check_linear("linear", x, weight, bias);
  return {output_of(x, weight), packed_of(weight)};
}

LinearLoss cross_entropy_forward_meta(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, const at::Tensor& target) {
  check_linear("linear_cross_entropy", x, weight, bias);
  check_labels(x, target);
  return loss_of(x, weight);
}

LinearLoss mse_forward_meta(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& target) {
  check_linear("linear_mse", x, weight, bias);
  check_values(x, weight, target);
  return loss_of(x, weight);
}

LinearGrads linear_backward_meta(const std::optional<at::Tensor>& saved_x,
                                 const std::optional<at::Tensor>& packed,
                                 const at::Tensor& grad_output,
                                 const std::optional<at::Tensor>& scale, std::int64_t input,
                                 LinearMask mask) {
  check_linear_backward(saved_x, packed, grad_output, scale, input, mask);
  const auto batch = grad_output.sym_size(0), outputs = grad_output.sym_size(1);
  const auto empty = [&](bool wanted, c10::SymIntArrayRef sizes) {
    return wanted ? at::empty_symint(sizes, grad_output.options()) : at::Tensor();
  };
  return {empty(mask[0], {batch, input}), empty(mask[1], {outputs, input}),
          empty(mask[2], {outputs})};
}

}  // namespace passel::detail
