#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace passel::shm {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// The parameters of any torch::nn::Module, in its own order. Templated so that
/// this header does not pull in torch/nn.
template <typename Module>
std::vector<NamedTensor> named_parameters(const Module& module) {
  std::vector<NamedTensor> result;
  for (const auto& item : module.named_parameters()) result.emplace_back(item.key(), item.value());
  return result;
}

/// The parameters and then the buffers of a module.
template <typename Module>
std::vector<NamedTensor> named_tensors(const Module& module) {
  std::vector<NamedTensor> result = named_parameters(module);
  for (const auto& item : module.named_buffers()) result.emplace_back(item.key(), item.value());
  return result;
}

/// A module itself, whether it comes as an object, a pointer or a ModuleHolder.
template <typename Module>
decltype(auto) module_of(Module& module) {
  if constexpr (requires { module->named_parameters(); }) {
    return *module;
  } else {
    return (module);
  }
}

}  // namespace passel::shm
