#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "linear_loss_ops.h"

// The same of ATen's operators, for devices without kernels of ours.
namespace passel::detail {
namespace {
using at::Tensor;

Tensor pack(const Tensor& weight) {
  Tensor packed =
      at::zeros({packed_linear_elements(weight.sym_size(1), weight.sym_size(0))}, weight.options());
  packed.narrow(0, 0, weight.numel()).copy_(weight.reshape({-1}));
  return packed;
}

}  // namespace

LinearOutput linear_forward_composed(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear("linear", x, weight, bias);
  return {at::addmm(bias, x, weight.t()), pack(weight)};
}

LinearLoss cross_entropy_forward_composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                          const Tensor& target) {
  check_linear("linear_cross_entropy", x, weight, bias);
  check_labels(x, target);
  const Tensor logits = at::addmm(bias, x, weight.t());
  const Tensor slopes = at::softmax(logits, 1);
  const Tensor rows = at::arange(x.size(0), target.options());
  slopes.index_put_({rows, target}, slopes.index({rows, target}) - 1);
  if (x.size(0) > 0) slopes.div_(x.size(0));
  return {at::cross_entropy_loss(logits, target), slopes, pack(weight)};
}

LinearLoss mse_forward_composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& target) {
  check_linear("linear_mse", x, weight, bias);
  check_values(x, weight, target);
  const Tensor output = at::addmm(bias, x, weight.t());
  const Tensor expected = target.view_as(output);
  const Tensor slopes = output - expected;
  if (output.numel() > 0) slopes.mul_(2.0 / static_cast<double>(output.numel()));
  return {at::mse_loss(output, expected), slopes, pack(weight)};
}

LinearGrads linear_backward_composed(const std::optional<Tensor>& saved_x,
                                     const std::optional<Tensor>& packed, const Tensor& grad_output,
                                     const std::optional<Tensor>& scale, std::int64_t input,
                                     LinearMask mask) {
  check_linear_backward(saved_x, packed, grad_output, scale, input, mask);
  const Tensor grad = scale && scale->defined() ? grad_output * *scale : grad_output;
  LinearGrads grads;
  if (mask[0]) {
    const std::int64_t outputs = grad.size(1);
    const Tensor weight = packed->narrow(0, 0, outputs * input).view({outputs, input});
    std::get<0>(grads) = at::mm(grad, weight);
  }
  if (mask[1]) std::get<1>(grads) = at::mm(grad.t(), *saved_x);
  if (mask[2]) std::get<2>(grads) = grad.sum(at::IntArrayRef{0});
  return grads;
}

}  // namespace passel::detail
