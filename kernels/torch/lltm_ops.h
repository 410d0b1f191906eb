#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <tuple>

// The two halves of passel::lltm as plain functions on CPU tensors, without autograd.
namespace passel::detail {

struct LltmSaved {
  at::Tensor hidden;  // [T, B, S]
  at::Tensor cells;   // [T, B, S]
  at::Tensor gates;   // [T, B, 3S] after activation
  at::Tensor packed;  // the weights as they were read
};

// Which gradients lltm_backward computes, in the order of lltm's arguments.
using LltmNeeds = std::array<bool, 5>;

// Throws c10::Error with the shapes that were expected.
void check_lltm_arguments(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& h0, const at::Tensor& c0);

// Expects contiguous arguments that passed check_lltm_arguments.
LltmSaved lltm_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& h0, const at::Tensor& c0);

// Undefined incoming gradients count as zero; gradients not needed come back undefined.
std::array<at::Tensor, 5> lltm_backward(const at::Tensor& x, const at::Tensor& h0,
                                        const at::Tensor& c0, const LltmSaved& saved,
                                        const at::Tensor& grad_hidden,
                                        const at::Tensor& grad_h_last,
                                        const at::Tensor& grad_c_last, const LltmNeeds& needs);

}  // namespace passel::detail
