#pragma once

#include <cstddef>
#include <cstdint>

#include "passel/kernels/half.h"

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

/// Threads that the caller lends to a call; the kernels start none themselves.
/// run(caller, parts, task, context) must call task(context, part) once for each
/// part in 0 .. parts - 1, in any order and on any threads, and return when all
/// of these calls have. `parts` is at most `count`. at::parallel_for fits.
struct LltmThreads {
  std::int64_t count = 1;
  void (*run)(void* caller, std::int64_t parts, void (*task)(void* context, std::int64_t part),
              void* context) = nullptr;  ///< nullptr: the calling thread alone
  void* caller = nullptr;                ///< passed on to run()
};

/// How a run is carried out. The bits of its results do not depend on it.
struct LltmPlan {
  /// 0: forward keeps tanh(c) and the gates of each step for backward. k > 0: it keeps
  /// c after every k-th step only, and backward computes the gates of k steps at a
  /// time again. That costs another third of the time of a training step and
  /// saves nearly 4 of the 5 TBS elements that are kept otherwise. Workspaces grow
  /// with k: about the square root of T is small in all.
  std::int64_t keep_every = 0;

  /// Forward and the steps of backward are split by rows of the batch, 8 at least
  /// to a part; the gradient of the weights by gates.
  LltmThreads threads = {};
};

/// Arrays of lltm_forward(); the caller owns all of them. T is float, double,
/// Bfloat16 or Float16; for the last two c, gates and all sums are in float, and h
/// is rounded to T after each step, before the next one reads it.
template <typename T, typename Sum = typename SumOf<T>::type>
struct LltmForward {
  const T* x;                ///< [T, B, I]
  const T* weight;           ///< [3S, S + I], the columns of h first; read exactly once;
                             ///< nullptr: `packed` holds weights and bias already
  const T* bias;             ///< [3S]; read exactly once
  const T* h0;               ///< [B, S]
  const Sum* c0;             ///< [B, S]
  T* hidden;                 ///< [T, B, S] out: h after each step
  Sum* c_last;               ///< [B, S] out: c after the last step
  Sum* cells;                ///< [lltm_cells_kept(), B, S] out: tanh(c) after each step; with
                             ///< keep_every c itself, after every k-th step and the last
  Sum* gates;                ///< [T, B, 3S] out: i, o, g after their activations; not used
                             ///< with keep_every
  Sum* packed;               ///< [lltm_packed_size()] out: the weights used, for lltm_backward()
  Sum* workspace = nullptr;  ///< [lltm_forward_workspace()] for 16-bit T; not used for others
};

/// Arrays of lltm_backward(); the caller owns all of them. Every gradient is
/// overwritten, not added to. Those of 16-bit arrays come in float, as sums.
template <typename T, typename Sum = typename SumOf<T>::type>
struct LltmBackward {
  const T* x;              ///< [T, B, I], as in forward
  const T* h0;             ///< [B, S], as in forward
  const Sum* c0;           ///< [B, S], as in forward
  const T* hidden;         ///< [T, B, S], from forward
  const Sum* cells;        ///< [lltm_cells_kept(), B, S], from forward
  const Sum* gates;        ///< [T, B, 3S], from forward; not used with keep_every
  const Sum* packed;       ///< [lltm_packed_size()], from forward
  const T* grad_hidden;    ///< [T, B, S] dL/dhidden, or nullptr for zero
  const T* grad_h_last;    ///< [B, S] dL/dh after the last step, or nullptr for zero
  const Sum* grad_c_last;  ///< [B, S] dL/dc after the last step, or nullptr for zero
  Sum* grad_x;             ///< [T, B, I] out, or nullptr if not wanted
  Sum* grad_weight;        ///< [3S, S + I] out, or nullptr if not wanted
  Sum* grad_bias;          ///< [3S] out, or nullptr if not wanted
  Sum* grad_h0;            ///< [B, S] out, or nullptr if not wanted
  Sum* grad_c0;            ///< [B, S] out, or nullptr if not wanted
  Sum* workspace;          ///< [lltm_backward_workspace()], contents do not matter
};

/// Sizes of arrays, in elements of type Sum. They depend on shape and keep_every
/// alone, not on the type, the machine or the threads. Backward's workspace is about
///
///   3 R S + 2 B S + R (S + I), with R = max(256, B) rows, and
///   4 k B S + 3 B S + (256 + B) (S + I) with keep_every = k
///
/// elements, however long the sequence; that of forward is B (2 S + I).
std::int64_t lltm_cells_kept(const LltmShape& shape, const LltmPlan& plan = {}) noexcept;
std::size_t lltm_packed_size(const LltmShape& shape) noexcept;
std::size_t lltm_forward_workspace(const LltmShape& shape) noexcept;
std::size_t lltm_backward_workspace(const LltmShape& shape, const LltmPlan& plan = {}) noexcept;

/// Copies the weights [3S, S + I] and the bias [3S] to `packed`
/// [lltm_packed_size(shape)], each element read exactly once. Only state and input
/// of the shape matter: sequences of any length and batch may share a packed block.
/// lltm_forward() does this itself unless it gets no weights. Their order is that of the
/// instruction set in use (isa.h): a packed block does not outlast select_isa().
void lltm_pack(const LltmShape& shape, const float* weight, const float* bias,
               float* packed) noexcept;
void lltm_pack(const LltmShape& shape, const double* weight, const double* bias,
               double* packed) noexcept;
void lltm_pack(const LltmShape& shape, const Bfloat16* weight, const Bfloat16* bias,
               float* packed) noexcept;
void lltm_pack(const LltmShape& shape, const Float16* weight, const Float16* bias,
               float* packed) noexcept;

/// Runs the cell over the whole sequence, on the calling thread or those lent.
///
/// Other processes may write `weight` and `bias` meanwhile: each element is read
/// once, into `packed`, and lltm_backward() differentiates that snapshot.
/// Each output element is one chain of fused multiply-adds in a fixed order, so
/// AVX2, AVX-512, NEON and scalar code give the same bits, and so does any split of
/// the batch or of the steps. Allocates nothing. Threads may call it at once on
/// other outputs. NaN and infinities propagate.
void lltm_forward(const LltmShape& shape, const LltmForward<float>& arrays,
                  const LltmPlan& plan = {}) noexcept;
void lltm_forward(const LltmShape& shape, const LltmForward<double>& arrays,
                  const LltmPlan& plan = {}) noexcept;
void lltm_forward(const LltmShape& shape, const LltmForward<Bfloat16>& arrays,
                  const LltmPlan& plan = {}) noexcept;
void lltm_forward(const LltmShape& shape, const LltmForward<Float16>& arrays,
                  const LltmPlan& plan = {}) noexcept;

/// Gradients of a loss whose derivatives by the outputs are given; the plan must
/// keep as much as forward's did. Same promises as lltm_forward(), but grad_weight
/// and grad_bias are sums over all steps, last to first, and rows, so adding up
/// those of a split run can differ in the last bits.
void lltm_backward(const LltmShape& shape, const LltmBackward<float>& arrays,
                   const LltmPlan& plan = {}) noexcept;
void lltm_backward(const LltmShape& shape, const LltmBackward<double>& arrays,
                   const LltmPlan& plan = {}) noexcept;
void lltm_backward(const LltmShape& shape, const LltmBackward<Bfloat16>& arrays,
                   const LltmPlan& plan = {}) noexcept;
void lltm_backward(const LltmShape& shape, const LltmBackward<Float16>& arrays,
                   const LltmPlan& plan = {}) noexcept;

}  // namespace passel::kernels
