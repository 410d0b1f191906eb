#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "linear_loss_ops.h"

namespace passel::detail {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A loss with its operator.
struct CrossEntropy {
  static constexpr const char* kName = "linear_cross_entropy";
  static constexpr auto kCall = call_linear_cross_entropy_forward;
};
struct SquaredError {
  static constexpr const char* kName = "linear_mse";
  static constexpr auto kCall = call_linear_mse_forward;
};

// Saves what the gradients asked for will need: x for weight's, the weights for x's.
void save(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& packed,
          const Tensor& slopes) {
  ctx->save_for_backward(
      {weight.requires_grad() ? x : Tensor(), x.requires_grad() ? packed : Tensor(), slopes});
  ctx->saved_data["input"] = x.sym_size(1).guard_int(__FILE__, __LINE__);
  ctx->set_materialize_grads(false);
}

std::optional<Tensor> given(const Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

// Gradients by x, weight and bias from what save() left.
variable_list gradients(AutogradContext* ctx, const Tensor& grad_output, const Tensor& scale) {
  const auto saved = ctx->get_saved_variables();
  const auto [by_x, by_weight, by_bias] = call_linear_backward(
      given(saved[0]), given(saved[1]), grad_output.defined() ? grad_output : saved[2],
      given(scale), ctx->saved_data["input"].toInt(),
      {ctx->needs_input_grad(0), ctx->needs_input_grad(1), ctx->needs_input_grad(2)});
  return {by_x, by_weight, by_bias};
}

void refuse_second_derivative(const char* op) {
  TORCH_CHECK(!at::GradMode::is_enabled(), op,
              " can be differentiated once; backward with create_graph=true (double backward) is "
              "not supported");
}

class LinearFunction : public Function<LinearFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [output, packed] = call_linear_forward(x, weight, bias);
    save(ctx, x, weight, packed, Tensor());
    ctx->mark_non_differentiable({packed});
    return {output, packed};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(3);
    refuse_second_derivative("linear");
    return gradients(ctx, grads[0], Tensor());
  }
};

template <class Loss>
class LinearLossFunction : public Function<LinearLossFunction<Loss>> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& target) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [loss, slopes, packed] = Loss::kCall(x, weight, bias, target);
    save(ctx, x, weight, packed, slopes);
    ctx->mark_non_differentiable({slopes, packed});
    return {loss, slopes, packed};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(4);
    refuse_second_derivative(Loss::kName);
    variable_list result = gradients(ctx, Tensor(), grads[0]);
    result.emplace_back();  // the target's
    return result;
  }
};

template <class Loss>
LinearLoss loss_with_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& target) {
  TORCH_CHECK(!at::GradMode::is_enabled() || !target.requires_grad(), Loss::kName,
              " has no gradient by its target, but the target requires one; detach() it");
  const auto result = LinearLossFunction<Loss>::apply(x, weight, bias, target);
  return {result[0], result[1], result[2]};
}

bool requires_grad(const std::optional<Tensor>& tensor) {
  return tensor && tensor->defined() && tensor->requires_grad();
}

}  // namespace

LinearOutput linear_forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const auto result = LinearFunction::apply(x, weight, bias);
  return {result[0], result[1]};
}

LinearLoss cross_entropy_forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                          const Tensor& target) {
  return loss_with_autograd<CrossEntropy>(x, weight, bias, target);
}

LinearLoss mse_forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                const Tensor& target) {
  return loss_with_autograd<SquaredError>(x, weight, bias, target);
}

LinearGrads linear_backward_autograd(const std::optional<Tensor>& saved_x,
                                     const std::optional<Tensor>& packed, const Tensor& grad_output,
                                     const std::optional<Tensor>& scale, std::int64_t input,
                                     LinearMask mask) {
  if (requires_grad(saved_x) || requires_grad(packed) || requires_grad(grad_output) ||
      requires_grad(scale)) {
    refuse_second_derivative("linear");
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_linear_backward(saved_x, packed, grad_output, scale, input, mask);
}

}  // namespace passel::detail
