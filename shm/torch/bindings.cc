#include "passel/shm_torch/bindings.h"

namespace passel::shm {
namespace {

std::string describe(const at::Tensor& tensor) {
  std::string text = std::string(c10::toString(tensor.scalar_type())) + " [";
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(tensor.size(d));
  }
  return text + "]";
}

}  // namespace

SharingLost::SharingLost(const std::string& name)
    : Error("use the shared tensor '" + name + "'", 0,
            "It has left shared memory: it was given other data (set_data, to(), a new tensor) "
            "after bind(), so nobody else sees its updates. Write into it in place") {}

void Bindings::bind(const std::string& group, std::span<const NamedTensor> tensors,
                    std::span<const NamedTensor> shared) {
  const auto refuse = [&](const std::string& what) {
    throw Error("bind to the shared tensors '" + group + "'", 0,
                what + ": build it here as in the parent");
  };
  if (tensors.size() != shared.size()) {
    refuse("Expected " + std::to_string(shared.size()) + " tensors, got " +
           std::to_string(tensors.size()));
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    const auto& [expected_name, expected] = shared[i];
    const auto& [name, tensor] = tensors[i];
    if (name != expected_name || tensor.sizes() != expected.sizes() ||
        tensor.scalar_type() != expected.scalar_type()) {
      refuse("Expected '" + expected_name + "' " + describe(expected) + ", got '" + name + "' " +
             describe(tensor));
    }
  }
  for (std::size_t i = 0; i < shared.size(); ++i) {
    tensors[i].second.set_data(shared[i].second.detach());
    bound_.push_back(
        {group + "/" + tensors[i].first, tensors[i].second, tensors[i].second.storage().data()});
  }
}

void Bindings::check() const {
  for (const Bound& bound : bound_) {
    if (bound.tensor.storage().data() != bound.data) throw SharingLost(bound.name);
  }
}

}  // namespace passel::shm
