#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passel/train/training_memory.h"

namespace passel::train {

/// Hogwild (Niu, Recht, Re, Wright, 2011): a gradient is computed from the live
/// parameters and applied to them in place, without locks. Optimiser state and
/// its step count are shared, or those of the worker's slot. One object per
/// worker, used by one thread.
class HogwildMode {
 public:
  HogwildMode(const Config& config, const TrainingMemory& memory, std::uint32_t slot);

  /// The version that the gradient computed next is based on.
  std::int64_t begin() const noexcept;

  /// Applies one gradient per parameter, in the order of the layout, clipped to
  /// the configured norm over all of them. Returns the version it was applied to;
  /// nothing when an element is not finite: such a gradient is rejected whole,
  /// because one NaN in the shared parameters reaches every worker.
  std::optional<std::int64_t> commit(std::span<const at::Tensor> gradients, double lr) noexcept;

 private:
  kernels::UpdateOptions options_;
  double clip_norm_;
  std::span<float> values_;
  OptimizerState state_;
  std::vector<shm::ParameterSpan> spans_;
  RunCounters* counters_;
};

}  // namespace passel::train
