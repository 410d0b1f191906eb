#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "find_operator.h"
#include "linear_loss_ops.h"
#include "passel/kernels_torch/linear_loss.h"

// The schemas, which implementation serves which dispatch key, and the ways in.
// One translation unit, so that a program that links the static library and
// calls any of them has them all.
namespace passel {
namespace {

using at::Tensor;

Tensor output_alone(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return std::get<0>(detail::call_linear_forward(x, weight, bias));
}

Tensor cross_entropy_alone(const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& target) {
  return std::get<0>(detail::call_linear_cross_entropy_forward(x, weight, bias, target));
}

Tensor mse_alone(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target) {
  return std::get<0>(detail::call_linear_mse_forward(x, weight, bias, target));
}

// The kernels have single precision at least, as autocast wants it for losses.
template <c10::DeviceType device, auto op, class... Tensors>
Tensor in_single_precision(const Tensors&... tensors) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  return op(at::autocast::cached_cast(at::kFloat, tensors, device)...);
}

template <c10::DeviceType device>
void implement_autocast(torch::Library& library) {
  library.impl("linear", in_single_precision<device, linear, Tensor, Tensor, Tensor>);
  library.impl("linear_cross_entropy",
               in_single_precision<device, linear_cross_entropy, Tensor, Tensor, Tensor, Tensor>);
  library.impl("linear_mse",
               in_single_precision<device, linear_mse, Tensor, Tensor, Tensor, Tensor>);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  static const auto op = find_operator<decltype(linear)>("passel::linear");
  return op.call(x, weight, bias);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target) {
  static const auto op =
      find_operator<decltype(linear_cross_entropy)>("passel::linear_cross_entropy");
  return op.call(x, weight, bias, target);
}

Tensor linear_mse(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target) {
  static const auto op = find_operator<decltype(linear_mse)>("passel::linear_mse");
  return op.call(x, weight, bias, target);
}

namespace detail {

LinearOutput call_linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  static const auto op = find_operator<LinearForward>("passel::linear_forward");
  return op.call(x, weight, bias);
}

LinearLoss call_linear_cross_entropy_forward(const Tensor& x, const Tensor& weight,
                                             const Tensor& bias, const Tensor& target) {
  static const auto op = find_operator<LinearLossForward>("passel::linear_cross_entropy_forward");
  return op.call(x, weight, bias, target);
}

LinearLoss call_linear_mse_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const Tensor& target) {
  static const auto op = find_operator<LinearLossForward>("passel::linear_mse_forward");
  return op.call(x, weight, bias, target);
}

LinearGrads call_linear_backward(const std::optional<Tensor>& saved_x,
                                 const std::optional<Tensor>& packed, const Tensor& grad_output,
                                 const std::optional<Tensor>& scale, std::int64_t input,
                                 LinearMask mask) {
  static const auto op = find_operator<LinearBackward>("passel::linear_backward");
  return op.call(saved_x, packed, grad_output, scale, input, mask);
}

}  // namespace detail

TORCH_LIBRARY_FRAGMENT(passel, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor bias) -> Tensor", output_alone);
  library.def("linear_cross_entropy(Tensor x, Tensor weight, Tensor bias, Tensor target) -> Tensor",
              cross_entropy_alone);
  library.def("linear_mse(Tensor x, Tensor weight, Tensor bias, Tensor target) -> Tensor",
              mse_alone);
  library.def(
      "linear_forward(Tensor x, Tensor weight, Tensor bias) -> (Tensor output, Tensor packed)");
  library.def(
      "linear_cross_entropy_forward(Tensor x, Tensor weight, Tensor bias, Tensor target) -> "
      "(Tensor loss, Tensor slopes, Tensor packed)");
  library.def(
      "linear_mse_forward(Tensor x, Tensor weight, Tensor bias, Tensor target) -> "
      "(Tensor loss, Tensor slopes, Tensor packed)");
  library.def(
      "linear_backward(Tensor? saved_x, Tensor? packed, Tensor grad_output, Tensor? scale, "
      "int input, bool[3] mask) -> (Tensor grad_x, Tensor grad_weight, Tensor grad_bias)");
}

TORCH_LIBRARY_IMPL(passel, CPU, library) {
  library.impl("linear_forward", detail::linear_forward_cpu);
  library.impl("linear_cross_entropy_forward", detail::cross_entropy_forward_cpu);
  library.impl("linear_mse_forward", detail::mse_forward_cpu);
  library.impl("linear_backward", detail::linear_backward_cpu);
}
TORCH_LIBRARY_IMPL(passel, CompositeExplicitAutograd, library) {
  library.impl("linear_forward", detail::linear_forward_composed);
  library.impl("linear_cross_entropy_forward", detail::cross_entropy_forward_composed);
  library.impl("linear_mse_forward", detail::mse_forward_composed);
  library.impl("linear_backward", detail::linear_backward_composed);
}
TORCH_LIBRARY_IMPL(passel, Meta, library) {
  library.impl("linear_forward", detail::linear_forward_meta);
  library.impl("linear_cross_entropy_forward", detail::cross_entropy_forward_meta);
  library.impl("linear_mse_forward", detail::mse_forward_meta);
  library.impl("linear_backward", detail::linear_backward_meta);
}
TORCH_LIBRARY_IMPL(passel, Autograd, library) {
  library.impl("linear_forward", detail::linear_forward_autograd);
  library.impl("linear_cross_entropy_forward", detail::cross_entropy_forward_autograd);
  library.impl("linear_mse_forward", detail::mse_forward_autograd);
  library.impl("linear_backward", detail::linear_backward_autograd);
}
TORCH_LIBRARY_IMPL(passel, AutocastCPU, library) {
  implement_autocast<at::kCPU>(library);
}
TORCH_LIBRARY_IMPL(passel, AutocastCUDA, library) {
  implement_autocast<at::kCUDA>(library);
}

}  // namespace passel
