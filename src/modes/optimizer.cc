#include "passel/train/optimizer.h"

#include <array>

#include "passel/train/staleness_options.h"

namespace passel::train {

Optimizer::Optimizer(const Config& config, std::vector<shm::ParameterSpan> spans,
                     const device::BlockMemory& memory)
    : options_(update_options(config)),
      clip_norm_(config.clip_norm),
      staleness_lr_(config.staleness_lr),
      spans_(std::move(spans)),
      memory_(memory),
      parts_(spans_.size()) {
  // Not in update_options(): the state that is kept and saved does not depend on the correction.
  options_.momentum = explicit_momentum(config);
}

double Optimizer::squared_norm(const float* gradient) noexcept {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    parts_[i] = {gradient + spans_[i].begin, spans_[i].count};
  }
  return memory_.squared_norm(parts_);
}

void Optimizer::write_gradients(const std::vector<at::Tensor>& gradients,
                                float* block) const noexcept {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    memory_.copy(gradients[i].const_data_ptr<float>(), block + spans_[i].begin, spans_[i].count);
  }
}

double Optimizer::stale_lr(double lr, std::int64_t staleness) const noexcept {
  return lr * staleness_factor(staleness_lr_, staleness);
}

// The norm has no limit where clip_norm is 0.
float Optimizer::scale(double squared_norm) const noexcept {
  return clip_norm_ > 0 ? kernels::clip_scale(squared_norm, clip_norm_) : 1.0F;
}

void Optimizer::apply_to(std::size_t parameter, const kernels::UpdateStep& step, const Point& from,
                         const float* gradient, const Point& to) const noexcept {
  const shm::ParameterSpan& span = spans_[parameter];
  const std::size_t count = to.state.blocks.size();
  std::array<const float*, 3> old{};
  std::array<float*, 3> next{};
  for (std::size_t s = 0; s < count; ++s) {
    old[s] = from.state.blocks[s].data() + span.begin;
    next[s] = to.state.blocks[s].data() + span.begin;
  }
  memory_.apply_update(options_, step, {from.values.data() + span.begin, {old.data(), count}},
                       gradient, to.values.data() + span.begin, {next.data(), count}, span.count);
}

}  // namespace passel::train
