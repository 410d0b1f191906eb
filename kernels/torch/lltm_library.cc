#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "find_operator.h"
#include "lltm_ops.h"
#include "passel/kernels_torch/lltm.h"

// The schemas, which implementation serves which dispatch key, and the ways in.
// One translation unit, so that a program that links the static library and
// calls any of them has them all.
namespace passel {
namespace {

using at::Tensor;

// The cell state adds up over the steps, so it stays in single precision.
template <c10::DeviceType device>
detail::LltmResult lltm_autocast(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& tensor) {
    return at::autocast::cached_cast(type, tensor, device);
  };
  return lltm(cast(x), cast(weight), cast(bias), cast(h0),
              at::autocast::cached_cast(at::kFloat, c0, device), keep_every);
}

}  // namespace

detail::LltmResult lltm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h0,
                        const Tensor& c0, std::int64_t keep_every) {
  static const auto op = find_operator<decltype(lltm)>("passel::lltm");
  return op.call(x, weight, bias, h0, c0, keep_every);
}

detail::LltmResult lltm_padded(const Tensor& x, const Tensor& weight, const Tensor& bias,
                               const Tensor& h0, const Tensor& c0, const Tensor& lengths,
                               std::int64_t keep_every) {
  static const auto op = find_operator<decltype(lltm_padded)>("passel::lltm_padded");
  return op.call(x, weight, bias, h0, c0, lengths, keep_every);
}

std::tuple<Tensor, Tensor> lltm_cell(const Tensor& input, const Tensor& weights, const Tensor& bias,
                                     const Tensor& old_h, const Tensor& old_cell) {
  static const auto op = find_operator<decltype(lltm_cell)>("passel::lltm_cell");
  return op.call(input, weights, bias, old_h, old_cell);
}

namespace detail {

LltmForwardResult call_lltm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                    const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  static const auto op = find_operator<LltmForward>("passel::lltm_forward");
  return op.call(x, weight, bias, h0, c0, keep_every);
}

bool has_cuda_kernels() {
  static const auto op = find_operator<LltmForward>("passel::lltm_forward");
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

LltmGrads call_lltm_backward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Tensor& h0, const Tensor& c0, const Tensor& hidden,
                             const Tensor& cells, const Tensor& gates, const Tensor& packed,
                             const std::optional<Tensor>& grad_hidden,
                             const std::optional<Tensor>& grad_h_last,
                             const std::optional<Tensor>& grad_c_last, LltmMask mask,
                             std::int64_t keep_every) {
  static const auto op = find_operator<LltmBackward>("passel::lltm_backward");
  return op.call(x, weight, bias, h0, c0, hidden, cells, gates, packed, grad_hidden, grad_h_last,
                 grad_c_last, mask, keep_every);
}

}  // namespace detail

TORCH_LIBRARY(passel, library) {
  library.def(
      "lltm(Tensor x, Tensor weight, Tensor bias, Tensor h0, Tensor c0, int keep_every=0) -> "
      "(Tensor hidden, Tensor h_last, Tensor c_last)",
      detail::lltm_of_any_type);
  library.def(
      "lltm_padded(Tensor x, Tensor weight, Tensor bias, Tensor h0, Tensor c0, Tensor lengths, "
      "int keep_every=0) -> (Tensor hidden, Tensor h_last, Tensor c_last)",
      detail::lltm_of_lengths);
  library.def(
      "lltm_cell(Tensor input, Tensor weights, Tensor bias, Tensor old_h, Tensor old_cell) -> "
      "(Tensor new_h, Tensor new_cell)",
      detail::lltm_one_step);
  library.def(
      "lltm_forward(Tensor x, Tensor weight, Tensor bias, Tensor h0, Tensor c0, "
      "int keep_every=0) -> "
      "(Tensor hidden, Tensor h_last, Tensor c_last, Tensor cells, Tensor gates, Tensor packed)");
  library.def(
      "lltm_backward(Tensor x, Tensor weight, Tensor bias, Tensor h0, Tensor c0, Tensor hidden, "
      "Tensor cells, Tensor gates, Tensor packed, Tensor? grad_hidden, Tensor? grad_h_last, "
      "Tensor? grad_c_last, bool[5] mask, int keep_every=0) -> "
      "(Tensor grad_x, Tensor grad_weight, Tensor grad_bias, Tensor grad_h0, Tensor grad_c0)");
}

TORCH_LIBRARY_IMPL(passel, CPU, library) {
  library.impl("lltm_forward", detail::lltm_forward_cpu);
  library.impl("lltm_backward", detail::lltm_backward_cpu);
}
TORCH_LIBRARY_IMPL(passel, CompositeExplicitAutograd, library) {
  library.impl("lltm_forward", detail::lltm_forward_composed);
  library.impl("lltm_backward", detail::lltm_backward_composed);
}
TORCH_LIBRARY_IMPL(passel, Meta, library) {
  library.impl("lltm_forward", detail::lltm_forward_meta);
  library.impl("lltm_backward", detail::lltm_backward_meta);
}
TORCH_LIBRARY_IMPL(passel, Autograd, library) {
  library.impl("lltm_forward", detail::lltm_forward_autograd);
  library.impl("lltm_backward", detail::lltm_backward_autograd);
}
// vmap would call these once for each element otherwise.
TORCH_LIBRARY_IMPL(passel, FuncTorchBatched, library) {
  library.impl("lltm", detail::lltm_of_any_type);
  library.impl("lltm_cell", detail::lltm_one_step);
}
TORCH_LIBRARY_IMPL(passel, AutocastCPU, library) {
  library.impl("lltm", lltm_autocast<at::kCPU>);
}
TORCH_LIBRARY_IMPL(passel, AutocastCUDA, library) {
  library.impl("lltm", lltm_autocast<at::kCUDA>);
}

}  // namespace passel
