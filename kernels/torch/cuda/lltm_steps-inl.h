#pragma once

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <type_traits>

#include "element_type.h"
#include "lltm_ops.h"
#include "passel/kernels_cuda/lltm_pointwise.h"
#include "plain_weights.h"

// A sequence as one product for x, then a product and a pointwise kernel a step, and
// backward as one product for the weights over all steps. Device says how a product
// and a pointwise kernel are run, so that the tests can have all else on the CPU:
//
//   void multiply(Tensor out, Tensor a, Tensor b)    out = a b, in the type of out
//   void compute(LltmPointwiseForward<T> or LltmPointwiseBackward<T>)
namespace passel::detail {

/// A dense tensor [T, ...] as pointers to its steps.
template <typename T>
class Steps {
 public:
  explicit Steps(const at::Tensor& tensor)
      : data_(data_of<T>(tensor)), stride_(tensor.defined() ? tensor.stride(0) : 0) {}

  T* operator[](std::int64_t t) const { return data_ == nullptr ? nullptr : data_ + t * stride_; }

 private:
  T* data_;
  std::int64_t stride_;
};

inline at::Tensor dense(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.defined() ? tensor.to(type).contiguous() : tensor;
}

template <class Device>
void run_steps(const Device& device, const at::Tensor& x, const PlainWeights& weights,
               const at::Tensor& h0, const at::Tensor& c0, const at::Tensor& hidden,
               const at::Tensor& cells, const at::Tensor& gates) {
  const std::int64_t steps = x.size(0), batch = x.size(1), state = h0.size(1);
  if (hidden.numel() == 0) return;
  device.multiply(gates.view({steps * batch, 3 * state}), x.view({steps * batch, x.size(2)}),
                  weights.from_x.t());
  const at::Tensor from_h = at::empty({batch, 3 * state}, gates.options());
  const at::Tensor weight_h = weights.from_h.t();
  with_element_type(x.scalar_type(), [&]<typename T>(std::type_identity<T>) {
    using Sum = typename kernels::SumOf<T>::type;
    const Steps<T> to_hidden(hidden);
    const Steps<Sum> to_cells(cells), to_gates(gates);
    for (std::int64_t t = 0; t < steps; ++t) {
      device.multiply(from_h, t == 0 ? h0 : hidden.select(0, t - 1), weight_h);
      device.compute(kernels::LltmPointwiseForward<T>{
          .batch = batch,
          .state = state,
          .from_x = to_gates[t],
          .from_h = data_of<const Sum>(from_h),
          .bias = data_of<const T>(weights.bias),
          .cell_in = t == 0 ? data_of<const Sum>(c0) : to_cells[t - 1],
          .gates = to_gates[t],
          .cell = to_cells[t],
          .hidden = to_hidden[t]});
    }
  });
}

template <class Device>
LltmForwardResult lltm_forward_in_steps(const Device& device, const at::Tensor& x_in,
                                        const at::Tensor& weight, const at::Tensor& bias,
                                        const at::Tensor& h0_in, const at::Tensor& c0_in,
                                        std::int64_t keep_every) {
  const at::Tensor x = x_in.contiguous(), h0 = h0_in.contiguous(), c0 = c0_in.contiguous();
  const std::int64_t steps = x.size(0), batch = x.size(1), state = h0.size(1);
  const at::Tensor packed = at::empty({packed_elements(x, h0)}, c0.options());
  const PlainWeights weights(packed, x.scalar_type(), state, x.size(2));
  weights.read(weight, bias);
  const at::Tensor hidden = at::empty({steps, batch, state}, x.options());
  const at::Tensor cells = at::empty({steps, batch, state}, c0.options());
  const at::Tensor gates = at::empty({steps, batch, 3 * state}, c0.options());
  run_steps(device, x, weights, h0, c0, hidden, cells, gates);
  return {hidden,
          last_step(hidden, h0),
          last_step(cells, c0),
          kept_cells(cells, keep_every),
          keep_every == 0 ? gates : at::empty({0, batch, 3 * state}, c0.options()),
          packed};
}

struct Activations {
  at::Tensor cells;  // [T, B, S]
  at::Tensor gates;  // [T, B, 3S]
};

/// Where forward did not keep them.
template <class Device>
Activations activations_again(const Device& device, const at::Tensor& x,
                              const PlainWeights& weights, const at::Tensor& h0,
                              const at::Tensor& c0) {
  const std::int64_t steps = x.size(0), batch = x.size(1), state = h0.size(1);
  Activations made{at::empty({steps, batch, state}, c0.options()),
                   at::empty({steps, batch, 3 * state}, c0.options())};
  const at::Tensor hidden = at::empty({steps, batch, state}, x.options());
  run_steps(device, x, weights, h0, c0, hidden, made.cells, made.gates);
  return made;
}

/// What backward carries from a step to the one before it.
struct StepGradients {
  at::Tensor by_gates;      // [T, B, 3S], before the activations
  at::Tensor by_h0, by_c0;  // [B, S]
};

template <class Device>
StepGradients run_steps_backward(const Device& device, const at::Tensor& x,
                                 const PlainWeights& weights, const at::Tensor& cells,
                                 const at::Tensor& gates, const at::Tensor& grad_hidden,
                                 const at::Tensor& grad_h_last, const at::Tensor& grad_c_last,
                                 bool wants_h0) {
  const std::int64_t steps = cells.size(0), batch = cells.size(1), state = cells.size(2);
  const at::Tensor by_gates = at::empty({steps, batch, 3 * state}, x.options());
  if (cells.numel() == 0) {
    const auto or_zeros = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient.clone() : at::zeros({batch, state}, cells.options());
    };
    return {by_gates, or_zeros(grad_h_last), or_zeros(grad_c_last)};
  }
  const at::Tensor by_h = at::empty({batch, state}, cells.options());
  const at::Tensor by_c = at::empty({batch, state}, cells.options());
  with_element_type(x.scalar_type(), [&]<typename T>(std::type_identity<T>) {
    using Sum = typename kernels::SumOf<T>::type;
    const Steps<const T> from_loss(grad_hidden);
    const Steps<const Sum> from_cells(cells), from_gates(gates);
    const Steps<T> to_gates(by_gates);
    for (std::int64_t t = steps - 1; t >= 0; --t) {
      const bool last = t == steps - 1;
      device.compute(kernels::LltmPointwiseBackward<T>{
          .batch = batch,
          .state = state,
          .gates = from_gates[t],
          .cell = from_cells[t],
          .grad_hidden = from_loss[t],
          .grad_hidden_in = data_of<const Sum>(last ? grad_h_last : by_h),
          .grad_cell_in = data_of<const Sum>(last ? grad_c_last : by_c),
          .grad_gates = to_gates[t],
          .grad_cell = data_of<Sum>(by_c)});
      if (t > 0 || wants_h0) device.multiply(by_h, by_gates.select(0, t), weights.from_h);
    }
  });
  return {by_gates, by_h, by_c};
}

/// h before each step beside x, [T B, S + I]: what the gates' weights were multiplied with.
inline at::Tensor inputs_of_gates(const at::Tensor& x, const at::Tensor& h0,
                                  const at::Tensor& hidden) {
  const at::Tensor before = at::cat({h0.unsqueeze(0), hidden}, 0).narrow(0, 0, x.size(0));
  return at::cat({before, x}, 2).flatten(0, 1);
}

template <class Device>
LltmGrads lltm_backward_in_steps(const Device& device, const at::Tensor& x_in, const at::Tensor& h0,
                                 const at::Tensor& c0, const at::Tensor& hidden,
                                 const at::Tensor& cells, const at::Tensor& gates,
                                 const at::Tensor& packed,
                                 const std::optional<at::Tensor>& grad_hidden,
                                 const std::optional<at::Tensor>& grad_h_last,
                                 const std::optional<at::Tensor>& grad_c_last, const LltmMask& mask,
                                 std::int64_t keep_every) {
  const at::ScalarType type = x_in.scalar_type(), sums = cells.scalar_type();
  const at::Tensor x = x_in.contiguous();
  const PlainWeights weights(packed.contiguous(), type, h0.size(1), x.size(2));
  const Activations saved =
      keep_every == 0 ? Activations{cells.contiguous(), gates.contiguous()}
                      : activations_again(device, x, weights, h0.contiguous(), c0.contiguous());
  const StepGradients grads = run_steps_backward(
      device, x, weights, saved.cells, saved.gates, dense(grad_hidden.value_or(at::Tensor()), type),
      dense(grad_h_last.value_or(at::Tensor()), sums),
      dense(grad_c_last.value_or(at::Tensor()), sums), mask[3]);
  const at::Tensor rows = grads.by_gates.flatten(0, 1);
  LltmGrads result;
  if (mask[0]) std::get<0>(result) = at::mm(rows, weights.from_x).view(x.sizes());
  if (mask[1]) std::get<1>(result) = at::mm(rows.t(), inputs_of_gates(x, h0, hidden));
  if (mask[2]) std::get<2>(result) = rows.sum(0);
  if (mask[3]) std::get<3>(result) = grads.by_h0.to(type);
  if (mask[4]) std::get<4>(result) = grads.by_c0;
  return result;
}

}  // namespace passel::detail
