#include <c10/util/Exception.h>

#include <string_view>

#include "linear_loss_ops.h"
#include "passel/kernels/linear_loss.h"

namespace passel::detail {

void check_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2, op, " expected x [B, S] and weight [C, S], got x ",
              x.sym_sizes(), " and weight ", weight.sym_sizes());
  TORCH_CHECK(weight.sym_size(1) == x.sym_size(1), op, " expected weight [C, S] = [C, ",
              x.sym_size(1), "] for x ", x.sym_sizes(), ", got ", weight.sym_sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.sym_size(0) == weight.sym_size(0), op,
              " expected bias [C] = [", weight.sym_size(0), "], got ", bias.sym_sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, op,
              " expected float or double tensors, got ", x.scalar_type());
  for (const at::Tensor* other : {&weight, &bias}) {
    TORCH_CHECK(other->scalar_type() == x.scalar_type(), op, " expected all tensors of type ",
                x.scalar_type(), " as x, got ", other->scalar_type());
    TORCH_CHECK(other->device() == x.device(), op, " expected all tensors on ", x.device(),
                " as x, got ", other->device());
  }
}

void check_labels(const at::Tensor& x, const at::Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong,
              "linear_cross_entropy expected labels of type Long, got ", target.scalar_type());
  TORCH_CHECK(target.dim() == 1 && target.sym_size(0) == x.sym_size(0),
              "linear_cross_entropy expected labels [B] = [", x.sym_size(0), "], got ",
              target.sym_sizes());
  TORCH_CHECK(target.device() == x.device(), "linear_cross_entropy expected labels on ", x.device(),
              " as x, got ", target.device());
}

void check_values(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& target) {
  const auto batch = x.sym_size(0), outputs = weight.sym_size(0);
  TORCH_CHECK(target.scalar_type() == x.scalar_type(), "linear_mse expected targets of type ",
              x.scalar_type(), " as x, got ", target.scalar_type());
  const bool one_each = target.dim() == 1 && outputs == 1 && target.sym_size(0) == batch;
  const bool all =
      target.dim() == 2 && target.sym_size(0) == batch && target.sym_size(1) == outputs;
  TORCH_CHECK(one_each || all, "linear_mse expected targets [B, C] = [", batch, ", ", outputs,
              "], or [B] where C = 1, got ", target.sym_sizes());
  TORCH_CHECK(target.device() == x.device(), "linear_mse expected targets on ", x.device(),
              " as x, got ", target.device());
}

void check_linear_backward(const std::optional<at::Tensor>& saved_x,
                           const std::optional<at::Tensor>& packed, const at::Tensor& grad_output,
                           const std::optional<at::Tensor>& scale, std::int64_t input,
                           const LinearMask& mask) {
  TORCH_CHECK(grad_output.dim() == 2, "linear_backward expected grad_output [B, C], got ",
              grad_output.sym_sizes());
  const auto type = grad_output.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble,
              "linear_backward expected float or double tensors, got ", type);
  const auto expect = [&](bool needed, std::string_view name, const std::optional<at::Tensor>& got,
                          c10::SymIntArrayRef sizes) {
    if (!needed) return;
    TORCH_CHECK(got && got->defined(), "linear_backward expected ", name,
                " for the gradients asked for, got none");
    TORCH_CHECK(got->sym_sizes() == sizes && got->scalar_type() == type &&
                    got->device() == grad_output.device(),
                "linear_backward expected ", name, " ", sizes, " of type ", type, " on ",
                grad_output.device(), ", got ", got->sym_sizes(), " of type ", got->scalar_type(),
                " on ", got->device());
  };
  expect(mask[1], "saved_x", saved_x, {grad_output.sym_size(0), input});
  expect(mask[0], "packed", packed, {packed_linear_elements(input, grad_output.sym_size(1))});
  expect(scale && scale->defined(), "scale", scale, {});
}

std::int64_t packed_linear_elements(const c10::SymInt& input, const c10::SymInt& output) {
  return static_cast<std::int64_t>(
      kernels::linear_packed_size({.batch = 0,
                                   .input = input.guard_int(__FILE__, __LINE__),
                                   .output = output.guard_int(__FILE__, __LINE__)}));
}

}  // namespace passel::detail
