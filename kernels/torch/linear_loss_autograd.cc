#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "linear_loss_ops.h"
#include "passel/kernels_torch/linear_loss.h"

namespace passel {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// A loss with what its operator is called.
struct CrossEntropy {
  static constexpr const char* kName = "linear_cross_entropy";
  static constexpr auto kCompute = detail::cross_entropy;
};
struct SquaredError {
  static constexpr const char* kName = "linear_mse";
  static constexpr auto kCompute = detail::squared_error;
};

// Saves what the gradients asked for will need: x for weight's, the weights for x's.
void save(AutogradContext* ctx, const Tensor& x, const Tensor& weight, const Tensor& packed,
          const Tensor& slopes) {
  ctx->save_for_backward({weight.requires_grad() ? x.contiguous() : Tensor(),
                          x.requires_grad() ? packed : Tensor(), slopes});
  ctx->saved_data["input"] = x.size(1);
  ctx->set_materialize_grads(false);
}

// Gradients by x, weight and bias from what save() left.
variable_list gradients(const char* op, AutogradContext* ctx, const Tensor& grad_output,
                        const Tensor& scale) {
  TORCH_CHECK(!at::GradMode::is_enabled(), op,
              " can be differentiated once; backward with create_graph=true (double backward) is "
              "not supported");
  const auto saved = ctx->get_saved_variables();
  const auto grads = detail::linear_backward(
      {.x = saved[0],
       .packed = saved[1],
       .grad_output = grad_output.defined() ? grad_output.contiguous() : saved[2],
       .scale = scale,
       .input = ctx->saved_data["input"].toInt()},
      {ctx->needs_input_grad(0), ctx->needs_input_grad(1), ctx->needs_input_grad(2)});
  return {grads.begin(), grads.end()};
}

class LinearFunction : public Function<LinearFunction> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    detail::check_linear("linear", x, weight, bias);
    const auto result = detail::linear_forward(x, weight, bias);
    save(ctx, x, weight, result.packed, Tensor());
    return result.output;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(3);
    return gradients("linear", ctx, grads[0], Tensor());
  }
};

template <class Loss>
class LinearLossFunction : public Function<LinearLossFunction<Loss>> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& target) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    detail::check_linear(Loss::kName, x, weight, bias);
    const auto layer = detail::linear_forward(x, weight, bias);
    const bool with_slopes = x.requires_grad() || weight.requires_grad() || bias.requires_grad();
    const auto result = Loss::kCompute(layer.output, target, with_slopes);
    save(ctx, x, weight, layer.packed, result.slopes);
    return result.loss;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    if (!grads[0].defined()) return variable_list(4);
    variable_list result = gradients(Loss::kName, ctx, Tensor(), grads[0]);
    result.emplace_back();  // the target's
    return result;
  }
};

Tensor linear_without_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  detail::check_linear("linear", x, weight, bias);
  return detail::linear_forward(x, weight, bias).output;
}

Tensor linear_with_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!at::GradMode::is_enabled()) return linear_without_autograd(x, weight, bias);
  return LinearFunction::apply(x, weight, bias);
}

template <class Loss>
Tensor loss_without_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& target) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  detail::check_linear(Loss::kName, x, weight, bias);
  return Loss::kCompute(detail::linear_forward(x, weight, bias).output, target, false).loss;
}

template <class Loss>
Tensor loss_with_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Tensor& target) {
  if (!at::GradMode::is_enabled()) return loss_without_autograd<Loss>(x, weight, bias, target);
  TORCH_CHECK(!target.requires_grad(), Loss::kName,
              " has no gradient by its target, but the target requires one; detach() it");
  return LinearLossFunction<Loss>::apply(x, weight, bias, target);
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("passel::linear", "")
                             .typed<Tensor(const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(x, weight, bias);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("passel::linear_cross_entropy", "")
          .typed<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(x, weight, bias, target);
}

Tensor linear_mse(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& target) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("passel::linear_mse", "")
          .typed<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&)>();
  return op.call(x, weight, bias, target);
}

TORCH_LIBRARY_FRAGMENT(passel, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor bias) -> Tensor");
  library.def(
      "linear_cross_entropy(Tensor x, Tensor weight, Tensor bias, Tensor target) -> Tensor");
  library.def("linear_mse(Tensor x, Tensor weight, Tensor bias, Tensor target) -> Tensor");
}

TORCH_LIBRARY_IMPL(passel, CPU, library) {
  library.impl("linear", linear_without_autograd);
  library.impl("linear_cross_entropy", loss_without_autograd<CrossEntropy>);
  library.impl("linear_mse", loss_without_autograd<SquaredError>);
}
TORCH_LIBRARY_IMPL(passel, Meta, library) {
  library.impl("linear", linear_without_autograd);
  library.impl("linear_cross_entropy", loss_without_autograd<CrossEntropy>);
  library.impl("linear_mse", loss_without_autograd<SquaredError>);
}
TORCH_LIBRARY_IMPL(passel, Autograd, library) {
  library.impl("linear", linear_with_autograd);
  library.impl("linear_cross_entropy", loss_with_autograd<CrossEntropy>);
  library.impl("linear_mse", loss_with_autograd<SquaredError>);
}

}  // namespace passel
