#pragma once

#include <ATen/core/Tensor.h>

#include <array>

// The parts of the linear layer's operators as plain functions on CPU or meta
// tensors, without autograd. On meta tensors they only check and give shapes.
namespace passel::detail {

struct LinearOutput {
  at::Tensor output;  // [B, C]
  at::Tensor packed;  // the weights as they were read
};

struct LinearLoss {
  at::Tensor loss;    // []
  at::Tensor slopes;  // [B, C] dloss/doutput; undefined where not wanted
};

// Throw c10::Error with the shapes and types that were expected. `op` begins the text.
void check_linear(const char* op, const at::Tensor& x, const at::Tensor& weight,
                  const at::Tensor& bias);
void check_labels(const at::Tensor& output, const at::Tensor& target);
void check_values(const at::Tensor& output, const at::Tensor& target);

// Expects arguments that passed check_linear.
LinearOutput linear_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// The slopes take the place of `output`.
LinearLoss cross_entropy(const at::Tensor& output, const at::Tensor& target, bool with_slopes);
LinearLoss squared_error(const at::Tensor& output, const at::Tensor& target, bool with_slopes);

struct LinearGradient {
  at::Tensor x;            // [B, S] contiguous; may be undefined where weight is not needed
  at::Tensor packed;       // may be undefined where x is not needed
  at::Tensor grad_output;  // [B, C] contiguous
  at::Tensor scale;        // [] dL/dloss, or undefined for 1
  std::int64_t input;      // S
};

// Gradients by x, weight and bias; those not needed come back undefined.
std::array<at::Tensor, 3> linear_backward(const LinearGradient& from,
                                          const std::array<bool, 3>& needs);

}  // namespace passel::detail
