#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "lltm_ops.h"
#include "passel/kernels_torch/lltm.h"

namespace passel {
namespace {

using at::Tensor;
using LltmResult = std::tuple<Tensor, Tensor, Tensor>;

// T = 0 has no last step: the last state is then the initial one. Always a copy,
// since an operator's results must not alias its arguments.
Tensor last_step(const Tensor& sequence, const Tensor& initial) {
  return sequence.size(0) == 0 ? initial.clone() : sequence.select(0, -1).clone();
}

class LltmFunction : public torch::autograd::Function<LltmFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const Tensor& x_in, const Tensor& weight,
                                                const Tensor& bias, const Tensor& h0_in,
                                                const Tensor& c0_in) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    detail::check_lltm_arguments(x_in, weight, bias, h0_in, c0_in);
    const Tensor x = x_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous();
    const auto saved = detail::lltm_forward(x, weight.contiguous(), bias.contiguous(), h0, c0);
    ctx->save_for_backward({x, h0, c0, saved.hidden, saved.cells, saved.gates, saved.packed});
    ctx->set_materialize_grads(false);
    return {saved.hidden, last_step(saved.hidden, h0), last_step(saved.cells, c0)};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "lltm can be differentiated once; backward with create_graph=true (double "
                "backward) is not supported");
    const auto saved = ctx->get_saved_variables();
    detail::LltmNeeds needs{};
    for (std::size_t i = 0; i < needs.size(); ++i) needs[i] = ctx->needs_input_grad(i);
    const auto result = detail::lltm_backward(
        saved[0], saved[1], saved[2],
        {.hidden = saved[3], .cells = saved[4], .gates = saved[5], .packed = saved[6]}, grads[0],
        grads[1], grads[2], needs);
    return {result.begin(), result.end()};
  }
};

LltmResult lltm_with_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& h0, const Tensor& c0) {
  auto results = LltmFunction::apply(x, weight, bias, h0, c0);
  return {results[0], results[1], results[2]};
}

LltmResult lltm_without_autograd(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& h0, const Tensor& c0) {
  detail::check_lltm_arguments(x, weight, bias, h0, c0);
  const auto saved = detail::lltm_forward(x.contiguous(), weight.contiguous(), bias.contiguous(),
                                          h0.contiguous(), c0.contiguous());
  return {saved.hidden, last_step(saved.hidden, h0), last_step(saved.cells, c0)};
}

}  // namespace

LltmResult lltm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h0,
                const Tensor& c0) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("passel::lltm", "")
                             .typed<LltmResult(const Tensor&, const Tensor&, const Tensor&,
                                               const Tensor&, const Tensor&)>();
  return op.call(x, weight, bias, h0, c0);
}

TORCH_LIBRARY(passel, library) {
  library.def(
      "lltm(Tensor x, Tensor weight, Tensor bias, Tensor h0, Tensor c0) -> "
      "(Tensor hidden, Tensor h_last, Tensor c_last)");
}

TORCH_LIBRARY_IMPL(passel, CPU, library) {
  library.impl("lltm", lltm_without_autograd);
}
TORCH_LIBRARY_IMPL(passel, Autograd, library) {
  library.impl("lltm", lltm_with_autograd);
}

}  // namespace passel
