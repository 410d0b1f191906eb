#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "passel/shm/error.h"
#include "passel/shm_torch/named_tensors.h"

namespace passel::shm {

/// A tensor that was bound to shared memory is no longer there: it was given
/// another storage, so its updates stay private.
class SharingLost : public Error {
 public:
  explicit SharingLost(const std::string& name);
};

/// The name under which the gradient of a tensor is shared.
std::string gradient_name(const std::string& name);

/// Gives each tensor that requires grad a gradient of zeros, and returns these under
/// their own names.
std::vector<NamedTensor> with_gradients(std::span<const NamedTensor> tensors);

/// Tensors of this process that must stay where they were bound.
class Bindings {
 public:
  /// Gives each tensor the data of its namesake in `group`, and the gradient that is
  /// shared with it, if one is.
  /// @throws Error naming the first difference in names, types or sizes
  void bind(const std::string& group, std::span<const NamedTensor> tensors,
            std::span<const NamedTensor> shared);

  /// Notes where tensors of `group` that are shared already lie.
  void watch(const std::string& group, std::span<const NamedTensor> shared);

  /// @throws SharingLost naming the first tensor that has moved
  void check() const;

 private:
  struct Bound {
    std::string name;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  // weak: it may keep the owner of this alive
    const void* data;
  };
  std::vector<Bound> bound_;
};

}  // namespace passel::shm
