#include "passel/train/hogwild.h"

namespace passel::train {

HogwildMode::HogwildMode(const Config& config, const TrainingMemory& memory, Parameters parameters,
                         std::uint32_t slot)
    : optimizer_(config, memory.parameters.spans(), *memory.blocks),
      parameters_(std::move(parameters)),
      state_(memory.optimizers[slot % memory.optimizers.size()]),
      values_(memory.versions[0]),
      counters_(memory.counters) {}

bool HogwildMode::begin(const Grant& /*grant*/, const std::function<bool()>& /*news*/) {
  base_ = counters_->version.load();
  parameters_->use(0);
  return true;
}

Versions HogwildMode::commit(const Grant& grant, const device::Gradient& gradient) noexcept {
  if (!gradient.finite()) return {base_, Done::kRejected};
  const auto part = [&](std::size_t i) { return gradient.parts[i].const_data_ptr<float>(); };
  const std::int64_t version = counters_->version.fetch_add(1);
  const Optimizer::Point live{values_, state_};
  optimizer_.apply(live, live, part, gradient.squared_norm,
                   optimizer_.stale_lr(grant.lr, version - base_), state_.steps->fetch_add(1) + 1);
  return {base_, version};
}

}  // namespace passel::train
