#include "passel/train/model.h"

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
  at::Tensor last_hidden(const at::Tensor& x) {
    const auto [hidden, state] = lltm(x);
    return std::get<0>(state).select(0, 0);
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

Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

at::Tensor Model::predict(const at::Tensor& x) {
  return linear(module_->last_hidden(x), module_->head->weight, module_->head->bias);
}

at::Tensor Model::loss(const at::Tensor& x, const at::Tensor& target, const at::Tensor& dropout) {
  at::Tensor h_last = module_->last_hidden(x);
  if (dropout.defined()) h_last = h_last.mul(dropout);
  const auto& head = *module_->head;
  return shape_.classes > 0 ? linear_cross_entropy(h_last, head.weight, head.bias, target)
                            : linear_mse(h_last, head.weight, head.bias, target);
}

}  // namespace passel::train
