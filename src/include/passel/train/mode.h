#pragma once

#include <functional>
#include <memory>
#include <span>

#include "passel/train/model.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Version an update's gradient was computed from, and the one it was applied to or
/// Done::kRejected.
struct Versions {
  std::int64_t base;
  std::int64_t applied;
};

/// How a worker reads the shared parameters and how its gradients reach them. One object per
/// worker, used by one thread.
class Mode {
 public:
  Mode() = default;
  virtual ~Mode() = default;
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

  /// Makes the model's parameters those that the ticket is to be computed from, and waits for them
  /// where they do not exist yet.
  /// @param news something else is to be looked at
  /// @return false: there was news first
  virtual bool begin(const Grant& grant, const std::function<bool()>& news) = 0;

  /// Takes one gradient per parameter, in the order of the layout. Clips them to the configured
  /// norm over all of them. Rejects them whole when the loss or an element is not finite, because
  /// one NaN in the shared parameters reaches every worker.
  virtual Versions commit(const Grant& grant, float loss,
                          std::span<const at::Tensor> gradients) noexcept = 0;
};

/// The mode of the configuration, for the worker of a slot; `model` must outlive it.
std::unique_ptr<Mode> make_mode(const Config& config, const TrainingMemory& memory,
                                const Model& model, std::uint32_t slot);

}  // namespace passel::train
