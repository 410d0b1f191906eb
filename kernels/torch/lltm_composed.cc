#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <vector>

#include "lltm_ops.h"
#include "plain_weights.h"

// The cell in ATen's operators: for devices without a kernel of ours, and, since
// autograd can differentiate it, for derivatives of the second order and above.
namespace passel::detail {
namespace {

using at::Tensor;

// In the type of sums.
struct Sequences {
  Tensor hidden, cells, gates;
};

// h as the next step reads it: of the values that `type` has. For autograd it is h.
Tensor rounded(const Tensor& h, at::ScalarType type) {
  return h.scalar_type() == type ? h : h + (h.to(type).to(h.scalar_type()) - h).detach();
}

Tensor stack_steps(const std::vector<Tensor>& steps, const Tensor& x, std::int64_t columns) {
  return steps.empty() ? at::zeros({0, x.size(1), columns}, x.options()) : at::stack(steps);
}

// All arguments in the type of sums, h rounded to `type`.
Sequences run(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& h0,
              const Tensor& c0, at::ScalarType type) {
  const std::int64_t state = h0.size(1);
  const Tensor weight_h_t = weight.narrow(1, 0, state).t();
  const Tensor from_x = at::linear(x, weight.narrow(1, state, x.size(2)), bias);
  Tensor h = h0, c = c0;
  std::vector<Tensor> hidden, cells, gates;
  for (std::int64_t t = 0; t < x.size(0); ++t) {
    const auto z = at::addmm(from_x.select(0, t), h, weight_h_t).chunk(3, 1);
    const Tensor i = at::sigmoid(z[0]), o = at::sigmoid(z[1]), g = at::elu(z[2]);
    c = c + g * i;
    h = rounded(at::tanh(c) * o, type);
    gates.push_back(at::cat({i, o, g}, 1));
    cells.push_back(c);
    hidden.push_back(h);
  }
  return {stack_steps(hidden, x, state), stack_steps(cells, x, state),
          stack_steps(gates, x, 3 * state)};
}

struct StateGradients {
  Tensor by_gates;  // [T, B, 3S], before activation
  Tensor by_h0, by_c0;
};

// Derivatives are selected, not multiplied by masks: 0 * inf is not 0.
StateGradients run_backward(const Tensor& x, const Tensor& weight_h, const Sequences& saved,
                            const Tensor& grad_hidden, Tensor by_h, Tensor by_c) {
  const std::int64_t state = weight_h.size(1);
  std::vector<Tensor> by_gates;
  for (std::int64_t t = x.size(0) - 1; t >= 0; --t) {
    if (grad_hidden.defined()) by_h = by_h + grad_hidden.select(0, t);
    const auto gates = saved.gates.select(0, t).chunk(3, 1);
    const Tensor &i = gates[0], &o = gates[1], &g = gates[2];
    const Tensor tanh_c = at::tanh(saved.cells.select(0, t));
    by_c = by_c + by_h * o * (1 - tanh_c * tanh_c);
    const Tensor by_g = by_c * i;
    by_gates.push_back(at::cat({by_c * g * i * (1 - i), by_h * tanh_c * o * (1 - o),
                                at::where(g > 0, by_g, by_g * (g + 1))},
                               1));
    by_h = at::matmul(by_gates.back(), weight_h);
  }
  std::reverse(by_gates.begin(), by_gates.end());
  return {stack_steps(by_gates, x, 3 * state), by_h, by_c};
}

Tensor or_zeros(const std::optional<Tensor>& gradient, const Tensor& like) {
  return gradient && gradient->defined() ? *gradient : at::zeros_like(like);
}

Tensor rows(const Tensor& sequence) {
  return sequence.flatten(0, 1);
}

LltmGrads gradients(const Tensor& x, const Tensor& weight, const Tensor& h0, const Tensor& c0,
                    const Sequences& saved, const std::optional<Tensor>& grad_hidden,
                    const std::optional<Tensor>& grad_h_last,
                    const std::optional<Tensor>& grad_c_last, const LltmMask& mask) {
  const std::int64_t steps = x.size(0), state = h0.size(1);
  const auto [by_gates, by_h0, by_c0] =
      run_backward(x, weight.narrow(1, 0, state), saved, grad_hidden.value_or(Tensor()),
                   or_zeros(grad_h_last, h0), or_zeros(grad_c_last, c0));
  LltmGrads grads;
  if (mask[0]) std::get<0>(grads) = at::matmul(by_gates, weight.narrow(1, state, x.size(2)));
  if (mask[1]) {
    const Tensor h = at::cat({h0.unsqueeze(0), saved.hidden}, 0).narrow(0, 0, steps);
    std::get<1>(grads) = at::matmul(rows(by_gates).t(), rows(at::cat({h, x}, 2)));
  }
  if (mask[2]) std::get<2>(grads) = by_gates.sum(at::IntArrayRef{0, 1});
  // An operator must not return its arguments, as it would where T = 0.
  if (mask[3]) std::get<3>(grads) = steps == 0 ? by_h0.clone() : by_h0;
  if (mask[4]) std::get<4>(grads) = steps == 0 ? by_c0.clone() : by_c0;
  return grads;
}

Tensor in_type(const Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

// Those of the arguments: all but the one by c0 are of x's type.
LltmGrads in_types_of_arguments(const LltmGrads& grads, at::ScalarType type) {
  const auto& [by_x, by_weight, by_bias, by_h0, by_c0] = grads;
  return {in_type(by_x, type), in_type(by_weight, type), in_type(by_bias, type),
          in_type(by_h0, type), by_c0};
}

std::optional<Tensor> in_type(const std::optional<Tensor>& tensor, at::ScalarType type) {
  return tensor ? std::optional(in_type(*tensor, type)) : tensor;
}

}  // namespace

LltmResult lltm_composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                         const Tensor& h0, const Tensor& c0, std::int64_t keep_every) {
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  const at::ScalarType type = x.scalar_type(), sums = type_of_sums(x);
  const Sequences made = run(x.to(sums), weight.to(sums), bias.to(sums), h0.to(sums), c0, type);
  const Tensor hidden = made.hidden.to(type);
  return {hidden, last_step(hidden, h0), last_step(made.cells, c0)};
}

LltmForwardResult lltm_forward_composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Tensor& h0, const Tensor& c0,
                                        std::int64_t keep_every) {
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  const at::ScalarType type = x.scalar_type(), sums = type_of_sums(x);
  const auto [hidden_s, cells, gates] =
      run(x.to(sums), weight.to(sums), bias.to(sums), h0.to(sums), c0, type);
  const Tensor hidden = hidden_s.to(type);
  const Tensor packed = at::zeros({packed_elements(x, h0)}, c0.options());
  PlainWeights(packed, type, h0.size(1), x.size(2)).read(weight, bias);
  return {hidden,
          last_step(hidden, h0),
          last_step(cells, c0),
          kept_cells(cells, keep_every),
          keep_every == 0 ? gates : at::empty({0, x.size(1), 3 * h0.size(1)}, c0.options()),
          packed};
}

LltmGrads lltm_backward_composed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Tensor& h0, const Tensor& c0, const Tensor& hidden,
                                 const Tensor& cells, const Tensor& gates, const Tensor& packed,
                                 const std::optional<Tensor>& grad_hidden,
                                 const std::optional<Tensor>& grad_h_last,
                                 const std::optional<Tensor>& grad_c_last, LltmMask mask,
                                 std::int64_t keep_every) {
  check_lltm_forward(x, weight, bias, h0, c0, keep_every);
  check_lltm_backward(x, h0, hidden, cells, gates, packed, grad_hidden, grad_h_last, grad_c_last,
                      keep_every);
  const at::ScalarType type = x.scalar_type(), sums = type_of_sums(x);
  const PlainWeights then(packed.contiguous(), type, h0.size(1), x.size(2));
  const Tensor x_s = x.to(sums), weight_s = then.all.to(sums), h0_s = h0.to(sums);
  const Sequences saved = keep_every == 0
                              ? Sequences{.hidden = hidden.to(sums), .cells = cells, .gates = gates}
                              : run(x_s, weight_s, then.bias.to(sums), h0_s, c0, type);
  return in_types_of_arguments(gradients(x_s, weight_s, h0_s, c0, saved, in_type(grad_hidden, sums),
                                         in_type(grad_h_last, sums), grad_c_last, mask),
                               type);
}

LltmGrads lltm_backward_recomputed(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   const Tensor& h0, const Tensor& c0,
                                   const std::optional<Tensor>& grad_hidden,
                                   const std::optional<Tensor>& grad_h_last,
                                   const std::optional<Tensor>& grad_c_last, const LltmMask& mask) {
  // What is computed in single precision stays so under autocast.
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  check_lltm_forward(x, weight, bias, h0, c0, 0);
  const at::ScalarType type = x.scalar_type(), sums = type_of_sums(x);
  const Tensor x_s = x.to(sums), weight_s = weight.to(sums), h0_s = h0.to(sums);
  return in_types_of_arguments(
      gradients(x_s, weight_s, h0_s, c0, run(x_s, weight_s, bias.to(sums), h0_s, c0, type),
                in_type(grad_hidden, sums), in_type(grad_h_last, sums), grad_c_last, mask),
      type);
}

}  // namespace passel::detail
