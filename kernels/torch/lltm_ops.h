#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

// The implementations behind the operators of lltm_library.cc, which holds their
// schemas. Letters: T steps, B batch, I input, S state.
namespace passel::detail {

using LltmResult = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// hidden [T, B, S], h_last [B, S], c_last [B, S], and for lltm_backward of the same
// backend: cells [T, B, S] (on the CPU tanh of them), gates [T, B, 3S] after activation,
// packed (the weights as they were read, in a form of the backend's own, but of one size on
// all of them). With keep_every = k > 0 cells are those after every k-th step and the last
// alone, and
// gates are [0, B, 3S]: backward computes them again. Where x is of a 16-bit type,
// hidden and h_last are of that type, rounded after each step before the next one
// reads it, and all others of type Float.
using LltmForwardResult =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Gradients by x, weight, bias, h0 and c0; undefined where not asked for.
using LltmGrads = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using LltmMask = std::array<bool, 5>;

using LltmForward = LltmForwardResult(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, const at::Tensor& h0,
                                      const at::Tensor& c0, std::int64_t keep_every);

// Incoming gradients that are not there count as zero.
using LltmBackward = LltmGrads(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const at::Tensor& h0, const at::Tensor& c0,
                               const at::Tensor& hidden, const at::Tensor& cells,
                               const at::Tensor& gates, const at::Tensor& packed,
                               const std::optional<at::Tensor>& grad_hidden,
                               const std::optional<at::Tensor>& grad_h_last,
                               const std::optional<at::Tensor>& grad_c_last, LltmMask mask,
                               std::int64_t keep_every);

// All of them throw c10::Error with the shapes that were expected.
LltmForward lltm_forward_cpu, lltm_forward_meta, lltm_forward_composed, lltm_forward_autograd;
LltmBackward lltm_backward_cpu, lltm_backward_meta, lltm_backward_composed, lltm_backward_autograd;

// lltm_of_any_type() in ATen's operators. Differentiable to any order and in forward
// mode, and open to the transforms of torch.func.
LltmResult lltm_composed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const at::Tensor& h0, const at::Tensor& c0, std::int64_t keep_every);

// The gradients as differentiable functions of these arguments: runs the sequence
// again in ATen's operators.
LltmGrads lltm_backward_recomputed(const at::Tensor& x, const at::Tensor& weight,
                                   const at::Tensor& bias, const at::Tensor& h0,
                                   const at::Tensor& c0,
                                   const std::optional<at::Tensor>& grad_hidden,
                                   const std::optional<at::Tensor>& grad_h_last,
                                   const std::optional<at::Tensor>& grad_c_last,
                                   const LltmMask& mask);

// Through the dispatcher.
LltmForward call_lltm_forward;
LltmBackward call_lltm_backward;

// Whether libpassel_cuda.so is loaded. Until then CUDA tensors get the composed form.
bool has_cuda_kernels();

// passel::lltm, passel::lltm_cell and passel::lltm_padded, without the dispatcher.
LltmResult lltm_of_any_type(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& h0, const at::Tensor& c0, std::int64_t keep_every);
std::tuple<at::Tensor, at::Tensor> lltm_one_step(const at::Tensor& input, const at::Tensor& weights,
                                                 const at::Tensor& bias, const at::Tensor& old_h,
                                                 const at::Tensor& old_cell);
LltmResult lltm_of_lengths(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& h0, const at::Tensor& c0, const at::Tensor& lengths,
                           std::int64_t keep_every);

void check_lltm_forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const at::Tensor& h0, const at::Tensor& c0, std::int64_t keep_every);

// Of the arguments that are no arguments of forward: the others must have passed
// check_lltm_forward().
void check_lltm_backward(const at::Tensor& x, const at::Tensor& h0, const at::Tensor& hidden,
                         const at::Tensor& cells, const at::Tensor& gates, const at::Tensor& packed,
                         const std::optional<at::Tensor>& grad_hidden,
                         const std::optional<at::Tensor>& grad_h_last,
                         const std::optional<at::Tensor>& grad_c_last, std::int64_t keep_every);

// Steps after which cells are kept.
c10::SymInt steps_kept(const c10::SymInt& steps, std::int64_t keep_every);

// Those of all cells [T, B, S] that are kept: these themselves, or copies.
at::Tensor kept_cells(const at::Tensor& cells, std::int64_t keep_every);

// Of cell states, gates and packed weights: Float for 16-bit types, else x's own.
at::ScalarType type_of_sums(const at::Tensor& x);

// Elements of `packed`. Sizes of weights that are symbolic become constants.
std::int64_t packed_elements(const at::Tensor& x, const at::Tensor& h0);

// T = 0 has no last step: the last state is then the initial one. Always a copy,
// since an operator's results must not alias its arguments.
at::Tensor last_step(const at::Tensor& sequence, const at::Tensor& initial);

}  // namespace passel::detail
