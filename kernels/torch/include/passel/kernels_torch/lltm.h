#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace passel {

// Runs an LLTM over a whole sequence; differentiable once in every argument.
//   x [T, B, I], weight [3S, S + I] (h's columns first; rows in the order
//   input, output, candidate), bias [3S], h0 and c0 [B, S]
// Returns the hidden states [T, B, S], the last hidden [B, S] and the last cell
// state [B, S]. fp32 or fp64, all of one type, on the CPU.
//
// The weights are read once, at the start: the gradient is that of the values
// read then, even while other processes update them (Hogwild).
// Also registered as the operator passel::lltm.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lltm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, const at::Tensor& h0,
                                                    const at::Tensor& c0);

}  // namespace passel
