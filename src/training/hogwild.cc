#include "passel/train/hogwild.h"

#include <array>
#include <cmath>

namespace passel::train {
namespace {

// Finite exactly when every element is: the squares of floats do not overflow in double.
double squared_norm(std::span<const at::Tensor> gradients) noexcept {
  double square = 0;
  for (const at::Tensor& gradient : gradients) {
    square += kernels::squared_norm(gradient.const_data_ptr<float>(),
                                    static_cast<std::size_t>(gradient.numel()));
  }
  return square;
}

// The factor that brings the norm down to `limit` (torch.nn.utils.clip_grad_norm_);
// 1 where it is below, or limit is 0.
float clip_scale(double norm, double limit) noexcept {
  return limit > 0 && norm > limit ? static_cast<float>(limit / (norm + 1e-6)) : 1.0F;
}

}  // namespace

HogwildMode::HogwildMode(const Config& config, const TrainingMemory& memory, std::uint32_t slot)
    : options_(update_options(config)),
      clip_norm_(config.clip_norm),
      values_(memory.parameters.values()),
      state_(memory.optimizers[slot % memory.optimizers.size()]),
      spans_(memory.parameters.spans()),
      counters_(memory.counters) {}

std::int64_t HogwildMode::begin() const noexcept {
  return counters_->version.load();
}

std::optional<std::int64_t> HogwildMode::commit(std::span<const at::Tensor> gradients,
                                                double lr) noexcept {
  const double square = squared_norm(gradients);
  if (!std::isfinite(square)) return std::nullopt;
  const float scale = clip_scale(std::sqrt(square), clip_norm_);
  const std::int64_t version = counters_->version.fetch_add(1);
  const kernels::UpdateStep step{
      .lr = lr, .step = state_.steps->fetch_add(1) + 1, .grad_scale = scale};
  std::array<float*, 3> state{};
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    for (std::size_t s = 0; s < state_.blocks.size(); ++s) {
      state[s] = state_.blocks[s].data() + spans_[i].begin;
    }
    kernels::apply_update(options_, step, values_.data() + spans_[i].begin,
                          gradients[i].const_data_ptr<float>(),
                          {state.data(), state_.blocks.size()}, spans_[i].count);
  }
  return version;
}

}  // namespace passel::train
