#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "passel/device/block_memory.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// The configured update rule over parameters in their flat layout, clipping and what it owes to
/// staleness included.
class Optimizer {
 public:
  /// `memory` is where parameters, state and gradients lie, and must outlive it.
  Optimizer(const Config& config, std::vector<shm::ParameterSpan> spans,
            const device::BlockMemory& memory);

  /// Sum of the squares of a gradient that is laid out as the parameters, in an order that depends
  /// on the layout alone. Finite exactly when every element is: the squares of floats do not
  /// overflow in double.
  double squared_norm(const float* gradient) noexcept;

  /// Parameters in their flat layout, and the state that goes with them.
  struct Point {
    std::span<float> values;
    const OptimizerState& state;
  };

  /// Reads `from` and writes to `to` what an update with step number `step`, from 1, makes of it,
  /// and waits for it. Both may be the same. Padding between parameters and the count of steps are
  /// left alone. `gradient(i)` is the i-th parameter's, [spans[i].count].
  template <class Gradient>
  void apply(const Point& from, const Point& to, Gradient&& gradient, double squared_norm,
             double lr, std::int64_t step) const noexcept {
    const kernels::UpdateStep update{.lr = lr, .step = step, .grad_scale = scale(squared_norm)};
    for (std::size_t i = 0; i < spans_.size(); ++i) apply_to(i, update, from, gradient(i), to);
    memory_.finish();
  }

  /// Writes one gradient per parameter into a block laid out as the parameters.
  void write_gradients(const std::vector<at::Tensor>& gradients, float* block) const noexcept;

  /// The learning rate of an update of that staleness: see staleness_factor().
  double stale_lr(double lr, std::int64_t staleness) const noexcept;

  const std::vector<shm::ParameterSpan>& spans() const { return spans_; }

 private:
  float scale(double squared_norm) const noexcept;
  void apply_to(std::size_t parameter, const kernels::UpdateStep& step, const Point& from,
                const float* gradient, const Point& to) const noexcept;

  kernels::UpdateOptions options_;
  double clip_norm_;
  double staleness_lr_;
  std::vector<shm::ParameterSpan> spans_;
  const device::BlockMemory& memory_;
  std::vector<device::Part> parts_;  // [spans]
};

}  // namespace passel::train
