#include "passel/train/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "passel/train/errors.h"

namespace passel::train {

LearningRate::Kind LearningRate::kind_of(const Config& config) {
  if (config.lr_schedule == "step") return Kind::kStep;
  if (config.lr_schedule == "linear") return Kind::kLinear;
  if (config.lr_schedule == "cosine") return Kind::kCosine;
  return Kind::kConstant;
}

LearningRate::LearningRate(const Config& config, const BatchPlan& plan)
    : kind_(kind_of(config)),
      lr_(config.lr),
      min_(config.lr_min),
      gamma_(config.lr_gamma),
      warmup_(config.lr_warmup),
      span_(plan.tickets() - config.lr_warmup),
      // An epoch count that overflows here is one that no run reaches.
      tickets_to_decay_(std::min(config.lr_step, config.epochs) * plan.tickets_per_epoch()) {
  if (span_ > 0) return;
  throw UsageError(
      fmt::format("expected --lr-warmup to be less than the {} tickets of --epochs {}, got {}. It "
                  "is in tickets (batches)",
                  plan.tickets(), config.epochs, warmup_));
}

double LearningRate::at(std::int64_t ticket) const noexcept {
  const double rate = scheduled(ticket);
  if (ticket >= warmup_) return rate;
  return rate * static_cast<double>(ticket + 1) / static_cast<double>(warmup_ + 1);
}

double LearningRate::scheduled(std::int64_t ticket) const noexcept {
  const double progress =
      static_cast<double>(std::clamp<std::int64_t>(ticket - warmup_, 0, span_)) /
      static_cast<double>(span_);
  const std::int64_t decays = ticket / tickets_to_decay_;
  switch (kind_) {
    case Kind::kConstant:
      break;
    case Kind::kStep:
      return lr_ * std::pow(gamma_, static_cast<double>(decays));
    case Kind::kLinear:
      return lr_ + (min_ - lr_) * progress;
    case Kind::kCosine:
      return min_ + (lr_ - min_) * (1 + std::cos(std::numbers::pi * progress)) / 2;
  }
  return lr_;
}

}  // namespace passel::train
