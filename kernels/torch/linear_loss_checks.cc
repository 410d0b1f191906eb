#include <c10/util/Exception.h>

#include "linear_loss_ops.h"

namespace passel::detail {

void check_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias) {
  TORCH_CHECK(x.dim() == 2 && weight.dim() == 2, op, " expected x [B, S] and weight [C, S], got x ",
              x.sizes(), " and weight ", weight.sizes());
  TORCH_CHECK(weight.size(1) == x.size(1), op, " expected weight [C, S] = [C, ", x.size(1),
              "] for x ", x.sizes(), ", got ", weight.sizes());
  TORCH_CHECK(bias.dim() == 1 && bias.size(0) == weight.size(0), op, " expected bias [C] = [",
              weight.size(0), "], got ", bias.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, op,
              " expected float or double tensors, got ", x.scalar_type());
  TORCH_CHECK(x.is_cpu() || x.is_meta(), op, " expected CPU tensors, got ", x.device());
  for (const at::Tensor* other : {&weight, &bias}) {
    TORCH_CHECK(other->scalar_type() == x.scalar_type(), op, " expected all tensors of type ",
                x.scalar_type(), " as x, got ", other->scalar_type());
    TORCH_CHECK(other->device() == x.device(), op, " expected all tensors on ", x.device(),
                " as x, got ", other->device());
  }
}

void check_labels(const at::Tensor& output, const at::Tensor& target) {
  TORCH_CHECK(target.scalar_type() == at::kLong,
              "linear_cross_entropy expected labels of type Long, got ", target.scalar_type());
  TORCH_CHECK(target.dim() == 1 && target.size(0) == output.size(0),
              "linear_cross_entropy expected labels [B] = [", output.size(0), "], got ",
              target.sizes());
  TORCH_CHECK(target.device() == output.device(), "linear_cross_entropy expected labels on ",
              output.device(), " as x, got ", target.device());
}

void check_values(const at::Tensor& output, const at::Tensor& target) {
  TORCH_CHECK(target.scalar_type() == output.scalar_type(), "linear_mse expected targets of type ",
              output.scalar_type(), " as x, got ", target.scalar_type());
  const bool one_each =
      output.size(1) == 1 && target.dim() == 1 && target.size(0) == output.size(0);
  TORCH_CHECK(one_each || target.sizes() == output.sizes(),
              "linear_mse expected targets [B, C] = ", output.sizes(), ", or [B] where C = 1, got ",
              target.sizes());
  TORCH_CHECK(target.device() == output.device(), "linear_mse expected targets on ",
              output.device(), " as x, got ", target.device());
}

}  // namespace passel::detail
