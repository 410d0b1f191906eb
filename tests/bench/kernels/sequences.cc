#include "sequences.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "passel/kernels_torch/lltm.h"

namespace bench {
namespace {

constexpr double kTolerance = 1e-4;

using Gradient = std::vector<at::Tensor>;

Gradient gradients_of(const Sequence& arguments, const LastState& last) {
  return torch::autograd::grad({std::get<0>(last), std::get<1>(last)}, arguments.differentiated(),
                               {arguments.grad_h, arguments.grad_c});
}

Contestant contestant(const std::string& side, const Shape& shape, Gradients gradients,
                      const Cell& cell) {
  struct State {
    Sequence arguments;
    LastState last;
  };
  const auto state = std::make_shared<State>(State{Sequence(shape, gradients), {}});
  return {.kind = gradients == Gradients::kAll ? "lltm" : "lltm_nodx",
          .side = side,
          .parts = {{"forward", forward_work(shape),
                     [state, cell] { state->last = cell(state->arguments); }},
                    {"backward", backward_work(shape, gradients),
                     [state] { gradients_of(state->arguments, state->last); }}}};
}

void check_close(const std::string& what, const at::Tensor& got, const at::Tensor& expected) {
  const double error = (got - expected).norm().item<double>();
  if (!(error <= kTolerance * expected.norm().item<double>())) {
    throw std::runtime_error("kernels_bench: " + what + " is off by a norm of " +
                             std::to_string(error) + "; what is measured must compute the same");
  }
}

}  // namespace

Sequence::Sequence(const Shape& n, Gradients gradients) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const auto uniform = [&](at::IntArrayRef sizes, double limit) {
    return at::empty(sizes, at::kFloat).uniform_(-limit, limit, generator);
  };
  const double limit = 1 / std::sqrt(static_cast<double>(n.s));
  x = uniform({n.t, n.b, n.i}, 1);
  weight = uniform({3 * n.s, n.s + n.i}, limit);
  bias = uniform({3 * n.s}, limit);
  h0 = uniform({n.b, n.s}, 1);
  c0 = uniform({n.b, n.s}, 1);
  grad_h = uniform({n.b, n.s}, 1);
  grad_c = uniform({n.b, n.s}, 1);
  for (at::Tensor* argument : {&weight, &bias}) argument->set_requires_grad(true);
  for (at::Tensor* argument : {&x, &h0, &c0}) {
    argument->set_requires_grad(gradients == Gradients::kAll);
  }
}

std::vector<at::Tensor> Sequence::differentiated() const {
  std::vector<at::Tensor> all = {weight, bias};
  for (const at::Tensor& argument : {x, h0, c0}) {
    if (argument.requires_grad()) all.push_back(argument);
  }
  return all;
}

LastState passel_sequence(const Sequence& a) {
  const auto [hidden, h, c] = passel::lltm(a.x, a.weight, a.bias, a.h0, a.c0);
  return {h, c};
}

void check_sequences(const Shape& shape) {
  const Sequence arguments(shape, Gradients::kAll);
  const LastState expected = passel_sequence(arguments);
  const Gradient expected_gradient = gradients_of(arguments, expected);
  for (const auto& [side, cell] : {std::pair<std::string, Cell>{"composed", composed_sequence},
                                   std::pair<std::string, Cell>{"tutorial", tutorial_sequence}}) {
    const LastState last = cell(arguments);
    check_close(side + "'s h", std::get<0>(last), std::get<0>(expected));
    check_close(side + "'s c", std::get<1>(last), std::get<1>(expected));
    const Gradient gradient = gradients_of(arguments, last);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      check_close(side + "'s gradient " + std::to_string(i), gradient[i], expected_gradient[i]);
    }
  }
}

std::vector<Contestant> sequence_contestants(const Shape& shape, Gradients gradients,
                                             bool all_peers) {
  std::vector<Contestant> all = {contestant("passel", shape, gradients, passel_sequence),
                                 contestant("composed", shape, gradients, composed_sequence)};
  if (all_peers) {
    all.push_back(contestant("tutorial", shape, gradients, tutorial_sequence));
    all.push_back(lstm_contestant(shape));
  }
  return all;
}

}  // namespace bench
