#pragma once

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "passel/kernels_torch/lltm.h"

// Random arguments of passel::lltm, and the oracle that it is compared with.
namespace passel::lltm_test {

using torch::Tensor;

struct Arguments {
  Tensor x, weight, bias, h0, c0;

  std::vector<Tensor> all() const { return {x, weight, bias, h0, c0}; }
};

inline Arguments make_arguments(std::int64_t steps, std::int64_t batch, std::int64_t input,
                                std::int64_t state, torch::Dtype dtype) {
  torch::manual_seed(3);
  const auto options = torch::TensorOptions().dtype(dtype).requires_grad(true);
  const double bound = 1.0 / std::sqrt(std::max(static_cast<double>(state), 1.0));
  return {torch::randn({steps, batch, input}, options),
          torch::empty({3 * state, state + input}, options.requires_grad(false))
              .uniform_(-bound, bound)
              .set_requires_grad(true),
          torch::empty({3 * state}, options.requires_grad(false))
              .uniform_(-bound, bound)
              .set_requires_grad(true),
          torch::randn({batch, state}, options), torch::randn({batch, state}, options)};
}

// The same cell written in ATen operators, with gradients from autograd.
inline std::vector<Tensor> composed(const Arguments& a) {
  Tensor h = a.h0, c = a.c0;
  std::vector<Tensor> hidden;
  for (std::int64_t t = 0; t < a.x.size(0); ++t) {
    const auto gates = torch::linear(torch::cat({h, a.x[t]}, 1), a.weight, a.bias).chunk(3, 1);
    c = c + torch::elu(gates[2]) * torch::sigmoid(gates[0]);
    h = torch::tanh(c) * torch::sigmoid(gates[1]);
    hidden.push_back(h);
  }
  return {torch::stack(hidden), h, c};
}

inline std::vector<Tensor> fused(const Arguments& a) {
  const auto [hidden, h, c] = lltm(a.x, a.weight, a.bias, a.h0, a.c0);
  return {hidden, h, c};
}

// A loss that weighs every output element differently; `outputs` picks which count.
inline Tensor loss_of(const std::vector<Tensor>& outputs, const std::vector<bool>& counts) {
  Tensor loss = torch::zeros({}, outputs[0].options());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!counts[i]) continue;
    const Tensor& out = outputs[i];
    const Tensor weights = torch::arange(1, out.numel() + 1, out.options()).view(out.sizes()).cos();
    loss = loss + (out * weights).sum();
  }
  return loss;
}

inline double relative_error(const Tensor& got, const Tensor& expected) {
  const double norm = expected.to(torch::kDouble).norm().item<double>();
  const double error = (got.to(torch::kDouble) - expected).norm().item<double>();
  return norm == 0 ? error : error / norm;
}

}  // namespace passel::lltm_test
