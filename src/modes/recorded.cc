#include "passel/train/recorded.h"

namespace passel::train {

RecordedMode::RecordedMode(const Config& config, const TrainingMemory& memory, const Model& model,
                           std::uint32_t slot)
    : commits_(config, memory, slot), views_(memory, model), parent_(memory.done.doorbell()) {}

bool RecordedMode::begin(const Grant& /*grant*/, const std::function<bool()>& /*news*/) {
  base_ = commits_.read();
  views_.bind(base_);
  return true;
}

Versions RecordedMode::commit(const Grant& grant, const Gradient& gradient) noexcept {
  // First of all: who waits for room among the versions may wait for this one.
  commits_.stop_reading();
  if (!gradient.finite()) return {base_, Done::kRejected};
  write_gradients(gradient.values, commits_.optimizer().spans(), commits_.gradient());
  const std::int64_t version =
      commits_.hand_in(grant.ticket, {.squared_norm = gradient.squared_norm,
                                      .lr = grant.lr,
                                      .base = base_,
                                      .loss = gradient.loss});
  parent_.ring();
  return {base_, version};
}

}  // namespace passel::train
