#include "passel/train/recorded.h"

namespace passel::train {

RecordedMode::RecordedMode(const Config& config, const TrainingMemory& memory,
                           Parameters parameters, std::uint32_t slot)
    : commits_(config, memory, slot),
      parameters_(std::move(parameters)),
      parent_(memory.done.doorbell()) {}

bool RecordedMode::begin(const Grant& /*grant*/, const std::function<bool()>& /*news*/) {
  base_ = commits_.read();
  parameters_->use(base_);
  return true;
}

Versions RecordedMode::commit(const Grant& grant, const device::Gradient& gradient) noexcept {
  // First of all: who waits for room among the versions may wait for this one.
  commits_.stop_reading();
  if (!gradient.finite()) return {base_, Done::kRejected};
  commits_.write(gradient.parts);
  const std::int64_t version =
      commits_.hand_in(grant.ticket, {.squared_norm = gradient.squared_norm,
                                      .lr = grant.lr,
                                      .base = base_,
                                      .loss = gradient.loss});
  parent_.ring();
  return {base_, version};
}

}  // namespace passel::train
