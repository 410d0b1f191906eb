#include <ATen/ops/empty.h>

#include "lltm_ops.h"

// Shapes without values, for tensors on the meta device and for tracing.
namespace passel::detail {

LltmForwardResult lltm_forward_meta(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const at::Tensor& h0,
                                    const at::Tensor& c0, std::int64_t keep_every) {
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  const auto steps = x.sym_size(0), batch = x.sym_size(1), state = h0.sym_size(1);
  const auto empty = [](const at::Tensor& like, c10::SymIntArrayRef sizes) {
    return at::empty_symint(sizes, like.options());
  };
  return {empty(x, {steps, batch, state}),
          empty(x, {batch, state}),
          empty(c0, {batch, state}),
          empty(c0, {steps_kept(steps, keep_every), batch, state}),
          empty(c0, {keep_every == 0 ? steps : c10::SymInt(0), batch, state * 3}),
          empty(c0, {packed_elements(x, h0)})};
}

LltmGrads lltm_backward_meta(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& h0, const at::Tensor& c0, const at::Tensor& hidden,
                             const at::Tensor& cells, const at::Tensor& gates,
                             const at::Tensor& packed, const std::optional<at::Tensor>& grad_hidden,
                             const std::optional<at::Tensor>& grad_h_last,
                             const std::optional<at::Tensor>& grad_c_last, LltmMask mask,
                             std::int64_t keep_every) {
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  check_lltm_backward(x, h0, hidden, cells, gates, packed, grad_hidden, grad_h_last, grad_c_last,
                      keep_every);
  const auto like = [](bool wanted, const at::Tensor& argument) {
    return wanted ? at::empty_symint(argument.sym_sizes(), argument.options()) : at::Tensor();
  };
  return {like(mask[0], x), like(mask[1], weight), like(mask[2], bias), like(mask[3], h0),
          like(mask[4], c0)};
}

}  // namespace passel::detail
