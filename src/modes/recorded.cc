#include "passel/train/recorded.h"

#include <cmath>

namespace passel::train {

RecordedMode::RecordedMode(const Config& config, const TrainingMemory& memory, const Model& model,
                           std::uint32_t slot)
    : commits_(config, memory, slot), views_(memory, model), parent_(memory.done.doorbell()) {}

bool RecordedMode::begin(const Grant& /*grant*/, const std::function<bool()>& /*news*/) {
  base_ = commits_.read();
  views_.bind(base_);
  return true;
}

Versions RecordedMode::commit(const Grant& grant, float loss,
                              std::span<const at::Tensor> gradients) noexcept {
  // First of all: who waits for room among the versions may wait for this one.
  commits_.stop_reading();
  const Optimizer& optimizer = commits_.optimizer();
  const double square =
      optimizer.squared_norm([&](std::size_t i) { return gradients[i].const_data_ptr<float>(); });
  if (!std::isfinite(loss) || !std::isfinite(square)) return {base_, Done::kRejected};
  write_gradients(gradients, optimizer.spans(), commits_.gradient());
  const std::int64_t version = commits_.hand_in(
      grant.ticket, {.squared_norm = square, .lr = grant.lr, .base = base_, .loss = loss});
  parent_.ring();
  return {base_, version};
}

}  // namespace passel::train
