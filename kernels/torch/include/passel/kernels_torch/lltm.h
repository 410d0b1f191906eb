#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

/// The LLTM as operators of torch. Each is also registered in the namespace
/// passel of torch.ops, with the same name and order of arguments. Letters: T
/// steps, B batch, I input, S state.
///
/// Types: x, weight, bias and h0 of one type; Float, Double, Half or BFloat16.
/// With the last two all sums, the gates and the cell state are in single precision,
/// and h is rounded to x's type after each step, before the next one reads it. Hidden
/// states come back in x's type and the cell state as Float; c0 may be of either.
/// Autocast casts all but the cell state. Devices: the CPU has kernels of its own,
/// CUDA has after load_cuda_kernels() (passel/kernels_torch/cuda.h), others run the
/// same cell in ATen's operators, a few launches a step. Types and shapes are the same
/// on all of them, and so is what is rounded in forward.
///
/// Differentiable in every argument, to any order. Derivatives of the second
/// order and above run the sequence again in ATen's operators, many times slower.
/// Arguments may have any strides and are not changed; results never alias them.
/// Shapes and types that do not fit throw c10::Error, which says what was expected.
/// Threads may call all of these at once.
namespace passel {

/// Runs an LLTM over a whole sequence.
///   x [T, B, I], weight [3S, S + I] (h's columns first; rows in the order
///   input, output, candidate), bias [3S], h0 and c0 [B, S]
/// Returns the hidden states [T, B, S], the last hidden [B, S] and the last cell
/// state [B, S]; h0 and c0 where T = 0.
///
/// keep_every: 0 keeps c and the gates of each step until backward, 4 TBS elements.
/// k > 0 keeps c after every k-th step alone, and backward computes the rest again,
/// which costs about a third of a training step's time more. On the CPU backward does
/// that k steps at a time, so that about √T takes the least memory, and no bit depends
/// on it; other devices do it for all steps at once.
///
/// The weights are read once, at the start: the gradient is that of the values
/// read then, even while others update them in place (Hogwild). Every other
/// tensor that backward needs must be unchanged then, or backward throws, as does
/// a second derivative after a change of the weights in this process.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lltm(const at::Tensor& x, const at::Tensor& weight,
                                                    const at::Tensor& bias, const at::Tensor& h0,
                                                    const at::Tensor& c0,
                                                    std::int64_t keep_every = 0);

/// The same for sequences of different lengths, padded to T steps. lengths [B] of
/// an integer type, each from 0 to T, on any device. Hidden states after the end
/// of a sequence are zero; the last states are those at its end. Each sequence
/// has the same values as it would have alone, and padding costs no arithmetic.
/// The weights are read once for each distinct length.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lltm_padded(
    const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& h0,
    const at::Tensor& c0, const at::Tensor& lengths, std::int64_t keep_every = 0);

/// One step, with the arguments and results of PyTorch's C++ extension tutorial:
///   input [B, I], weights [3S, S + I], bias [3S] or [1, 3S], old_h and old_cell [B, S]
/// Returns new_h and new_cell [B, S]. A sequence is faster in one call of lltm().
std::tuple<at::Tensor, at::Tensor> lltm_cell(const at::Tensor& input, const at::Tensor& weights,
                                             const at::Tensor& bias, const at::Tensor& old_h,
                                             const at::Tensor& old_cell);

}  // namespace passel
