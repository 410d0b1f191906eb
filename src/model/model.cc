#include "passel/train/model.h"

#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <algorithm>

#include "passel/kernels_torch/linear_loss.h"
#include "passel/kernels_torch/lltm_module.h"

namespace passel::train {

struct Model::Module : torch::nn::Module {
  Module(const SampleShape& shape, std::int64_t hidden_size)
      : lltm(register_module("lltm", nn::LLTM(shape.features, hidden_size))),
        head(register_module(
            "head", torch::nn::Linear(hidden_size, std::max<std::int64_t>(shape.classes, 1)))) {}

  // [B, S]
  at::Tensor last_hidden(const at::Tensor& x, State* state) {
    std::optional<nn::LLTMImpl::State> begin;
    if (state != nullptr) begin.emplace(state->h, state->c);
    const auto [hidden, end] = lltm->forward(x, begin);
    const auto& [h, c] = end;
    if (state != nullptr) *state = {.h = h.detach(), .c = c.detach()};
    return h.select(0, 0);
  }

  nn::LLTM lltm;
  torch::nn::Linear head;
};

Model::Model(const SampleShape& shape, std::int64_t hidden_size, std::uint64_t seed)
    : shape_(shape) {
  torch::manual_seed(seed);
  module_ = std::make_shared<Module>(shape, hidden_size);
  parameters_ = shm::named_parameters(*module_);
}

Model::State Model::initial_state(std::int64_t batch) const {
  const auto& options = module_->lltm->options;
  const std::vector<std::int64_t> sizes = {options.num_layers(), batch, options.hidden_size()};
  return {.h = at::zeros(sizes), .c = at::zeros(sizes)};
}

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

at::Tensor Model::predict(const at::Tensor& x, State* state) {
  return linear(module_->last_hidden(x, state), module_->head->weight, module_->head->bias);
}

at::Tensor Model::loss(const at::Tensor& x, const at::Tensor& target, const at::Tensor& dropout,
                       State* state) {
  at::Tensor h_last = module_->last_hidden(x, state);
  if (dropout.defined()) h_last = h_last.mul(dropout);
  const auto& head = *module_->head;
  return shape_.classes > 0 ? linear_cross_entropy(h_last, head.weight, head.bias, target)
                            : linear_mse(h_last, head.weight, head.bias, target);
}

}  // namespace passel::train
