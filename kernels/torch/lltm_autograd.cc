#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lltm_ops.h"

namespace passel::detail {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t version_of(const Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::int64_t>(tensor._version());
}

// A first derivative reads weight and bias from `packed` as they were when forward
// read them, so other threads may change them meanwhile (Hogwild) and they are not
// among the tensors whose versions the engine checks. A second derivative runs the
// sequence again with the tensors themselves, so it needs them unchanged.
void keep_parameter(AutogradContext* ctx, const std::string& name, const Tensor& parameter) {
  ctx->saved_data[name] = parameter;
  ctx->saved_data[name + " version"] = version_of(parameter);
}

Tensor kept_parameter(AutogradContext* ctx, const std::string& name) {
  Tensor parameter = ctx->saved_data[name].toTensor();
  TORCH_CHECK(!at::GradMode::is_enabled() ||
                  version_of(parameter) == ctx->saved_data[name + " version"].toInt(),
              "lltm cannot be differentiated twice: ", name, " ", parameter.sym_sizes(),
              " was changed in place after forward; expected version ",
              ctx->saved_data[name + " version"].toInt(), ", got ", version_of(parameter),
              ". Call backward with create_graph=true before the optimizer's step.");
  return parameter;
}

class LltmFunction : public torch::autograd::Function<LltmFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& h0, const Tensor& c0,
                               std::int64_t keep_every) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [hidden, h_last, c_last, cells, gates, packed] =
        call_lltm_forward(x, weight, bias, h0, c0, keep_every);
    ctx->saved_data["keep_every"] = keep_every;
    ctx->save_for_backward({x, h0, c0, hidden, cells, gates, packed});
    keep_parameter(ctx, "weight", weight);
    keep_parameter(ctx, "bias", bias);
    ctx->mark_non_differentiable({cells, gates, packed});
    ctx->set_materialize_grads(false);
    return {hidden, h_last, c_last, cells, gates, packed};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    LltmMask mask{};
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = ctx->needs_input_grad(i);
    const auto given = [&](std::size_t i) {
      return grads[i].defined() ? std::optional(grads[i]) : std::nullopt;
    };
    auto [by_x, by_weight, by_bias, by_h0, by_c0] =
        call_lltm_backward(saved[0], kept_parameter(ctx, "weight"), kept_parameter(ctx, "bias"),
                           saved[1], saved[2], saved[3], saved[4], saved[5], saved[6], given(0),
                           given(1), given(2), mask, ctx->saved_data["keep_every"].toInt());
    return {by_x, by_weight, by_bias, by_h0, by_c0, Tensor()};
  }
};

bool requires_grad(const std::optional<Tensor>& tensor) {
  return tensor && tensor->defined() && tensor->requires_grad();
}

}  // namespace

LltmForwardResult lltm_forward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& h0, const Tensor& c0,
                                        std::int64_t keep_every) {
  const auto r = LltmFunction::apply(x, weight, bias, h0, c0, keep_every);
  return {r[0], r[1], r[2], r[3], r[4], r[5]};
}

LltmGrads lltm_backward_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& h0, const Tensor& c0, const Tensor& hidden,
                                 const Tensor& cells, const Tensor& gates, const Tensor& packed,
                                 const std::optional<Tensor>& grad_hidden,
                                 const std::optional<Tensor>& grad_h_last,
                                 const std::optional<Tensor>& grad_c_last, LltmMask mask,
                                 std::int64_t keep_every) {
  const bool differentiable =
      at::GradMode::is_enabled() &&
      (requires_grad(x) || requires_grad(weight) || requires_grad(bias) || requires_grad(h0) ||
       requires_grad(c0) || requires_grad(grad_hidden) || requires_grad(grad_h_last) ||
       requires_grad(grad_c_last));
  if (differentiable) {
    return lltm_backward_recomputed(x, weight, bias, h0, c0, grad_hidden, grad_h_last, grad_c_last,
                                    mask);
  }
  const at::AutoDispatchBelowADInplaceOrView guard;
  return call_lltm_backward(x, weight, bias, h0, c0, hidden, cells, gates, packed, grad_hidden,
                            grad_h_last, grad_c_last, mask, keep_every);
}

}  // namespace passel::detail
