#pragma once

#include <cstdint>

#include "passel/train/batch_plan.h"
#include "passel/train/config.h"

namespace passel::train {

/// The learning rate of each ticket: a function of the configuration, the ticket and the run's
/// planned tickets alone. Planned are all tickets of all epochs, also where --max-tickets or a stop
/// ends the run before, so that a shortened, resumed or repeated run has the same rates.
///
/// Formulas as torch.optim.lr_scheduler (https://docs.pytorch.org/docs/2.11/optim.html):
///   constant  lr
///   step      StepLR, counted in epochs:      lr * gamma^(epoch / lr_step)
///   linear    LinearLR(lr, start_factor = 1, end_factor = lr_min / lr, total_iters = span)
///   cosine    CosineAnnealingLR(T_max = span, eta_min = lr_min), Loshchilov and Hutter 2017
/// During the first `lr_warmup` tickets LinearLR(start_factor = 1 / (lr_warmup + 1), total_iters =
/// lr_warmup) is a factor on the rate. linear and cosine begin after it (SequentialLR), so their
/// span is the planned tickets less the warm-up; step counts epochs from the start of the run
/// (ChainedScheduler).
class LearningRate {
 public:
  /// Throws UsageError where the warm-up is no shorter than the plan.
  LearningRate(const Config& config, const BatchPlan& plan);

  /// ticket >= 0. Past the plan, linear and cosine stay at lr_min.
  double at(std::int64_t ticket) const noexcept;

 private:
  enum class Kind { kConstant, kStep, kLinear, kCosine };

  static Kind kind_of(const Config& config);
  double scheduled(std::int64_t ticket) const noexcept;

  Kind kind_;
  double lr_, min_, gamma_;
  std::int64_t warmup_;            // tickets
  std::int64_t span_;              // tickets
  std::int64_t tickets_to_decay_;  // of kStep
};

}  // namespace passel::train
