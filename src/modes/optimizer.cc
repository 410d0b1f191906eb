#include "passel/train/optimizer.h"

#include <array>

#include "passel/train/staleness_options.h"

namespace passel::train {

Optimizer::Optimizer(const Config& config, std::vector<shm::ParameterSpan> spans)
    : options_(update_options(config)),
      clip_norm_(config.clip_norm),
      staleness_lr_(config.staleness_lr),
      spans_(std::move(spans)) {
  // Not in update_options(): the state that is kept and saved does not depend on the correction.
  options_.momentum = explicit_momentum(config);
}

double Optimizer::stale_lr(double lr, std::int64_t staleness) const noexcept {
  return lr * staleness_factor(staleness_lr_, staleness);
}

// The norm has no limit where clip_norm is 0.
float Optimizer::scale(double squared_norm) const noexcept {
  return clip_norm_ > 0 ? kernels::clip_scale(squared_norm, clip_norm_) : 1.0F;
}

void Optimizer::apply_to(std::size_t parameter, const kernels::UpdateStep& step,
                         std::span<float> values, const float* gradient,
                         const OptimizerState& state) const noexcept {
  const shm::ParameterSpan& span = spans_[parameter];
  std::array<float*, 3> blocks{};
  for (std::size_t s = 0; s < state.blocks.size(); ++s) {
    blocks[s] = state.blocks[s].data() + span.begin;
  }
  kernels::apply_update(options_, step, values.data() + span.begin, gradient,
                        {blocks.data(), state.blocks.size()}, span.count);
}

}  // namespace passel::train
