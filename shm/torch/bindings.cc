#include "passel/shm_torch/bindings.h"

#include <ATen/ops/zeros_like.h>

#include <map>
#include <string_view>
#include <utility>

namespace passel::shm {
namespace {

constexpr std::string_view kGradient = ".grad";

std::string describe(const at::Tensor& tensor) {
  std::string text = std::string(c10::toString(tensor.scalar_type())) + " [";
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(tensor.size(d));
  }
  return text + "]";
}

}  // namespace

std::string gradient_name(const std::string& name) {
  return name + std::string(kGradient);
}

std::vector<NamedTensor> with_gradients(std::span<const NamedTensor> tensors) {
  std::vector<NamedTensor> gradients;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.requires_grad()) continue;
    tensor.mutable_grad() = at::zeros_like(tensor.detach());
    gradients.emplace_back(gradient_name(name), tensor.grad());
  }
  return gradients;
}

SharingLost::SharingLost(const std::string& name)
    : Error("use the shared tensor '" + name + "'", 0,
            "It has left shared memory: it was given other data (set_data, to(), a new tensor) "
            "after share() or bind(), so nobody else sees its updates. Write into it in place") {}

void Bindings::bind(const std::string& group, std::span<const NamedTensor> tensors,
                    std::span<const NamedTensor> shared) {
  const auto refuse = [&](const std::string& what) {
    throw Error("bind to the shared tensors '" + group + "'", 0,
                what + ": build it here as in the parent");
  };
  std::map<std::string, at::Tensor> gradients;
  std::vector<NamedTensor> values;
  for (const auto& [name, tensor] : shared) {
    if (name.ends_with(kGradient)) {
      gradients.emplace(name, tensor);
    } else {
      values.emplace_back(name, tensor);
    }
  }
  if (tensors.size() != values.size()) {
    refuse("Expected " + std::to_string(values.size()) + " tensors, got " +
           std::to_string(tensors.size()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [expected_name, expected] = values[i];
    const auto& [name, tensor] = tensors[i];
    if (name != expected_name || tensor.sizes() != expected.sizes() ||
        tensor.scalar_type() != expected.scalar_type()) {
      std::string difference = "Expected '" + expected_name + "' " + describe(expected);
      difference.append(", got '").append(name).append("' ").append(describe(tensor));
      refuse(difference);
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    tensor.set_data(values[i].second.detach());
    if (const auto found = gradients.find(gradient_name(name)); found != gradients.end()) {
      tensor.mutable_grad() = found->second;
    }
    watch(group, std::span(&tensors[i], 1));
  }
}

void Bindings::watch(const std::string& group, std::span<const NamedTensor> shared) {
  for (const auto& [name, tensor] : shared) {
    std::string full_name = group;
    full_name.append("/").append(name);
    bound_.push_back({std::move(full_name),
                      c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()),
                      tensor.storage().data()});
  }
}

void Bindings::check() const {
  for (const Bound& bound : bound_) {
    const auto tensor = bound.tensor.lock();
    if (tensor && tensor->storage().data() != bound.data) throw SharingLost(bound.name);
  }
}

}  // namespace passel::shm
