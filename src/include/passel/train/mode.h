#pragma once

#include <functional>
#include <memory>
#include <span>

#include "passel/device/compute_device.h"
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

  /// Applies the gradient, or hands it in to be applied, clipped to the configured norm; rejects it
  /// where it is not finite. From here on others may see that the ticket is done.
  virtual Versions commit(const Grant& grant, const device::Gradient& gradient) noexcept = 0;
};

/// A model's parameters over the versions of the run's memory.
using Parameters = std::unique_ptr<device::Parameters>;

/// The mode of the configuration, for the worker of a slot; `memory` must outlive it.
std::unique_ptr<Mode> make_mode(const Config& config, const TrainingMemory& memory,
                                Parameters parameters, std::uint32_t slot);

}  // namespace passel::train
