#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passel/train/training_memory.h"

namespace passel::train {

/// The configured update rule over parameters in their flat layout, clipping and what it owes to
/// staleness included.
class Optimizer {
 public:
  Optimizer(const Config& config, std::vector<shm::ParameterSpan> spans);

  /// Sum of the squares of all gradients, in an order that depends on the layout alone. Finite
  /// exactly when every element is: the squares of floats do not overflow in double.
  /// `gradient(i)` is the i-th parameter's, [spans[i].count].
  template <class Gradient>
  double squared_norm(Gradient&& gradient) const noexcept {
    double square = 0;
    for (std::size_t i = 0; i < spans_.size(); ++i) {
      square += kernels::squared_norm(gradient(i), spans_[i].count);
    }
    return square;
  }

  /// Parameters in their flat layout, and the state that goes with them.
  struct Point {
    std::span<float> values;
    const OptimizerState& state;
  };

  /// Reads `from` and writes to `to` what an update with step number `step`, from 1, makes of it.
  /// Both may be the same. Padding between parameters and the count of steps are left alone.
  template <class Gradient>
  void apply(const Point& from, const Point& to, Gradient&& gradient, double squared_norm,
             double lr, std::int64_t step) const noexcept {
    const kernels::UpdateStep update{.lr = lr, .step = step, .grad_scale = scale(squared_norm)};
    for (std::size_t i = 0; i < spans_.size(); ++i) apply_to(i, update, from, gradient(i), to);
  }

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
};

}  // namespace passel::train
