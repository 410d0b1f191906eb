#pragma once

#include <cstdint>
#include <vector>

#include "passel/train/model.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// A worker's model over the parameter versions of the arena, one at a time, without a copy.
class VersionViews {
 public:
  /// `model` must outlive it.
  VersionViews(const TrainingMemory& memory, const Model& model);

  /// Makes the model's parameters those of the version.
  void bind(std::int64_t version) const;

 private:
  const Model& model_;
  std::vector<std::vector<at::Tensor>> views_;  // [versions][parameters]
};

/// Writes one gradient per parameter into a block laid out as `spans`.
void write_gradients(std::span<const at::Tensor> gradients,
                     std::span<const shm::ParameterSpan> spans, std::span<float> block) noexcept;

}  // namespace passel::train
