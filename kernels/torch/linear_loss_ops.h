#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

// The parts of the linear layer's operators that torch's dispatcher, autograd and
// tracers see one by one.
namespace passel::detail {

// Gradients wanted of x, weight and bias.
using LinearMask = std::array<bool, 3>;

// output [B, C]; packed: the weights as they were read, in an order of the
// implementation's own.
using LinearOutput = std::tuple<at::Tensor, at::Tensor>;
using LinearForward = LinearOutput(const at::Tensor& x, const at::Tensor& weight,
                                   const at::Tensor& bias);

// loss []; slopes [B, C]: dloss/doutput; packed.
using LinearLoss = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using LinearLossForward = LinearLoss(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, const at::Tensor& target);

// By x [B, input], weight [C, input] and bias [C], those not wanted undefined.
// `saved_x` is read for weight's, `packed` for x's; grad_output [B, C] times scale
// [], or 1, is the gradient by the output.
using LinearGrads = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using LinearBackward = LinearGrads(const std::optional<at::Tensor>& saved_x,
                                   const std::optional<at::Tensor>& packed,
                                   const at::Tensor& grad_output,
                                   const std::optional<at::Tensor>& scale, std::int64_t input,
                                   LinearMask mask);

// Throw c10::Error with the shapes and types that were expected. `op` begins the text.
void check_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias);
void check_labels(const at::Tensor& x, const at::Tensor& target);
void check_values(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& target);
void check_linear_backward(const std::optional<at::Tensor>& saved_x,
                           const std::optional<at::Tensor>& packed, const at::Tensor& grad_output,
                           const std::optional<at::Tensor>& scale, std::int64_t input,
                           const LinearMask& mask);

// Elements of `packed` for [C, S] weights. Symbolic sizes become constants.
std::int64_t packed_linear_elements(const c10::SymInt& input, const c10::SymInt& output);

// By way of the dispatcher.
LinearForward call_linear_forward;
LinearLossForward call_linear_cross_entropy_forward;
LinearLossForward call_linear_mse_forward;
LinearBackward call_linear_backward;

LinearForward linear_forward_cpu, linear_forward_composed, linear_forward_meta,
    linear_forward_autograd;
LinearLossForward cross_entropy_forward_cpu, cross_entropy_forward_composed,
    cross_entropy_forward_meta, cross_entropy_forward_autograd;
LinearLossForward mse_forward_cpu, mse_forward_composed, mse_forward_meta, mse_forward_autograd;
LinearBackward linear_backward_cpu, linear_backward_composed, linear_backward_meta,
    linear_backward_autograd;

}  // namespace passel::detail
