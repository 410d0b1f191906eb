#pragma once

#include <ATen/core/Tensor.h>

namespace passel {

// A linear layer, alone or with a loss on its outputs; differentiable once in x,
// weight and bias. Also registered as operators of the same names in passel::, which
// torch.compile traces through.
//   x [B, S], weight [C, S], bias [C]
// fp32 or fp64, all of one type and on one device; any strides. Autocast makes them
// fp32. Throws c10::Error that names the shapes and types expected. On devices other
// than the CPU they are composed of ATen's operators.
//
// The weights are read once, at the start: the gradient is that of the values read
// then, even while other processes update them (Hogwild). All additions are in a
// fixed order, on the calling thread: AVX2, AVX-512 and NEON give the same bits.

// x W' + b, [B, C].
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Mean over the batch of the cross-entropy of softmax(x W' + b) with int64 labels
// target [B], a scalar. A label out of [0, C) is an error; there is none to ignore.
at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, const at::Tensor& target);

// Mean of (x W' + b - target)^2, a scalar. target [B, C], or [B] where C = 1, of
// x's type; it must not require a gradient.
at::Tensor linear_mse(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& target);

}  // namespace passel
