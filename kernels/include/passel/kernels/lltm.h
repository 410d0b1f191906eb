#pragma once

#include <cstddef>
#include <cstdint>

namespace passel::kernels {

/// Sizes of one run of the LLTM cell (long-long-term memory, the recurrent cell
/// of PyTorch's C++ extension tutorial) over a sequence. Each may be zero.
///
///   [i, o, z] = [h, x] W' + b      rows of W: S input, S output, S candidate gates
///   i, o = sigmoid, g = elu(z), alpha = 1
///   c'   = c + g * i
///   h'   = tanh(c') * o
///
/// Letters below: T steps, B batch, I input, S state. All arrays are dense, the
/// last axis fastest, aligned for their element type, and do not overlap.
struct LltmShape {
  std::int64_t steps;
  std::int64_t batch;
  std::int64_t input;
  std::int64_t state;
};

/// Arrays of lltm_forward(); the caller owns all of them.
template <typename T>
struct LltmForward {
  const T* x;       ///< [T, B, I]
  const T* weight;  ///< [3S, S + I], the columns of h first; read exactly once
  const T* bias;    ///< [3S]; read exactly once
  const T* h0;      ///< [B, S]
  const T* c0;      ///< [B, S]
  T* hidden;        ///< [T, B, S] out: h after each step
  T* cells;         ///< [T, B, S] out: c after each step
  T* gates;         ///< [T, B, 3S] out: i, o, g after their activations
  T* packed;        ///< [lltm_packed_size(shape)] out: the weights used, for lltm_backward()
};

/// Arrays of lltm_backward(); the caller owns all of them. Every gradient is
/// overwritten, not added to.
template <typename T>
struct LltmBackward {
  const T* x;            ///< [T, B, I], as in forward
  const T* h0;           ///< [B, S], as in forward
  const T* c0;           ///< [B, S], as in forward
  const T* hidden;       ///< [T, B, S], from forward
  const T* cells;        ///< [T, B, S], from forward
  const T* gates;        ///< [T, B, 3S], from forward
  const T* packed;       ///< [lltm_packed_size(shape)], from forward
  const T* grad_hidden;  ///< [T, B, S] dL/dhidden, or nullptr for zero
  const T* grad_h_last;  ///< [B, S] dL/dh after the last step, or nullptr for zero
  const T* grad_c_last;  ///< [B, S] dL/dc after the last step, or nullptr for zero
  T* grad_x;             ///< [T, B, I] out, or nullptr if not wanted
  T* grad_weight;        ///< [3S, S + I] out, or nullptr if not wanted
  T* grad_bias;          ///< [3S] out, or nullptr if not wanted
  T* grad_h0;            ///< [B, S] out, or nullptr if not wanted
  T* grad_c0;            ///< [B, S] out, or nullptr if not wanted
  T* workspace;          ///< [lltm_backward_workspace(shape)], contents do not matter
};

/// Elements of `packed` and `workspace`. They depend on the shape alone, not on
/// the element type or the machine.
std::size_t lltm_packed_size(const LltmShape& shape) noexcept;
std::size_t lltm_backward_workspace(const LltmShape& shape) noexcept;

/// Runs the cell over the whole sequence on the calling thread.
///
/// Other processes may write `weight` and `bias` meanwhile: each element is read
/// once, into `packed`, and lltm_backward() differentiates that snapshot.
/// Each output element is one chain of fused multiply-adds in a fixed order, so
/// AVX2, AVX-512 and NEON give the same bits, and so does any split of the batch
/// or of the steps. Allocates nothing. Threads may call it at once on other
/// outputs. NaN and infinities propagate.
void lltm_forward(const LltmShape& shape, const LltmForward<float>& arrays) noexcept;
void lltm_forward(const LltmShape& shape, const LltmForward<double>& arrays) noexcept;

/// Gradients of a loss whose derivatives by the outputs are given. Same promises
/// as lltm_forward(), but grad_weight and grad_bias are sums over all steps and
/// rows, so adding up those of a split run can differ in the last bits.
void lltm_backward(const LltmShape& shape, const LltmBackward<float>& arrays) noexcept;
void lltm_backward(const LltmShape& shape, const LltmBackward<double>& arrays) noexcept;

}  // namespace passel::kernels
