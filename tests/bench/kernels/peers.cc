#include <torch/torch.h>

#include <memory>

#include "sequences.h"

// What users of libtorch would write, or have: the peers of passel::lltm().
namespace bench {
namespace {
using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One step with a backward pass by hand.
struct TutorialStep : torch::autograd::Function<TutorialStep> {
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor& h, const Tensor& c) {
    const Tensor both = at::cat({h, x}, 1);
    const Tensor gates = at::addmm(bias, both, weight.t());
    const auto pieces = gates.chunk(3, 1);
    const Tensor input = at::sigmoid(pieces[0]), output = at::sigmoid(pieces[1]);
    const Tensor candidate = at::elu(pieces[2]);
    const Tensor next_c = c + candidate * input;
    const Tensor next_h = at::tanh(next_c) * output;
    context->save_for_backward({both, weight, gates, input, output, candidate, next_c});
    return {next_h, next_c};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &both = saved[0], &weight = saved[1], &gates = saved[2], &input = saved[3],
                 &output = saved[4], &candidate = saved[5];
    const Tensor &by_h = gradients[0], &by_next_c = gradients[1];
    const Tensor tanh_c = at::tanh(saved[6]);
    const Tensor by_c = by_h * output * (1 - tanh_c * tanh_c) + by_next_c;
    const Tensor z = gates.chunk(3, 1)[2];
    const Tensor slope = at::where(z > 0, at::ones_like(z), at::exp(z));
    const Tensor by_gates = at::cat({by_c * candidate * input * (1 - input),
                                     by_h * tanh_c * output * (1 - output), by_c * input * slope},
                                    1);
    const Tensor by_both = by_gates.mm(weight);
    const std::int64_t state = by_h.size(1);
    return {by_both.slice(1, state), by_gates.t().mm(both), by_gates.sum(0),
            by_both.slice(1, 0, state), by_c};
  }
};

}  // namespace

LastState composed_sequence(const Sequence& a) {
  Tensor h = a.h0, c = a.c0;
  for (std::int64_t t = 0; t < a.x.size(0); ++t) {
    const Tensor gates = at::addmm(a.bias, at::cat({h, a.x[t]}, 1), a.weight.t());
    const auto pieces = gates.chunk(3, 1);
    c = c + at::elu(pieces[2]) * at::sigmoid(pieces[0]);
    h = at::tanh(c) * at::sigmoid(pieces[1]);
  }
  return {h, c};
}

LastState tutorial_sequence(const Sequence& a) {
  Tensor h = a.h0, c = a.c0;
  for (std::int64_t t = 0; t < a.x.size(0); ++t) {
    const variable_list next = TutorialStep::apply(a.x[t], a.weight, a.bias, h, c);
    h = next[0];
    c = next[1];
  }
  return {h, c};
}

Contestant lstm_contestant(const Shape& shape) {
  struct State {
    Sequence arguments;
    torch::nn::LSTM lstm;
    std::vector<Tensor> differentiated;
    LastState last;
  };
  const auto state = std::make_shared<State>(
      State{Sequence(shape, Gradients::kAll), torch::nn::LSTM(shape.i, shape.s), {}, {}});
  state->differentiated = state->lstm->parameters();
  for (const Tensor& argument : {state->arguments.x, state->arguments.h0, state->arguments.c0}) {
    state->differentiated.push_back(argument);
  }
  const auto scaled = [](Work work) { return Work{work.flops * 4 / 3, work.bytes * 4 / 3}; };
  return {.kind = "lltm",
          .side = "lstm",
          .parts = {{"forward", scaled(forward_work(shape)),
                     [state] {
                       const Sequence& a = state->arguments;
                       const auto result = state->lstm->forward(
                           a.x, std::make_tuple(a.h0.unsqueeze(0), a.c0.unsqueeze(0)));
                       state->last = std::get<1>(result);
                     }},
                    {"backward", scaled(backward_work(shape, Gradients::kAll)), [state] {
                       const auto& [h, c] = state->last;
                       torch::autograd::grad({h, c}, state->differentiated,
                                             {state->arguments.grad_h.unsqueeze(0),
                                              state->arguments.grad_c.unsqueeze(0)});
                     }}}};
}

}  // namespace bench
