#pragma once

#include <cmath>
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

/// What was computed of a ticket.
struct Gradient {
  float loss;
  std::span<const at::Tensor> values;  ///< one a parameter, in the order of the layout
  double squared_norm;                 ///< of all of them

  /// Neither the loss nor any element is not a finite number: what is not is rejected whole,
  /// because one NaN in the shared parameters reaches every worker.
  bool finite() const noexcept { return std::isfinite(loss) && std::isfinite(squared_norm); }
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
  virtual Versions commit(const Grant& grant, const Gradient& gradient) noexcept = 0;
};

/// The mode of the configuration, for the worker of a slot; `model` must outlive it.
std::unique_ptr<Mode> make_mode(const Config& config, const TrainingMemory& memory,
                                const Model& model, std::uint32_t slot);

}  // namespace passel::train
