#include "passel/train/ordered.h"

namespace passel::train {

OrderedMode::OrderedMode(const Config& config, const TrainingMemory& memory, Parameters parameters,
                         std::uint32_t slot)
    : commits_(config, memory, slot),
      parameters_(std::move(parameters)),
      parent_(memory.done.doorbell()) {}

bool OrderedMode::begin(const Grant& grant, const std::function<bool()>& news) {
  const Schedule& schedule = commits_.schedule();
  bool readable = false;
  commits_.bell().wait(
      [&] {
        if (commits_.needs_help()) help();
        readable = commits_.committed(schedule.needs(grant.ticket));
        return readable || news();
      },
      shm::kNoDeadline);
  if (!readable) return false;
  parameters_->use(schedule.base_of(grant.ticket));
  return true;
}

Versions OrderedMode::commit(const Grant& grant, const device::Gradient& gradient) noexcept {
  const bool accepted = gradient.finite();
  commits_.write(grant.ticket, gradient.parts);
  commits_.publish(grant.ticket, {.squared_norm = gradient.squared_norm,
                                  .lr = grant.lr,
                                  .loss = gradient.loss,
                                  .accepted = accepted});
  help();
  const Schedule& schedule = commits_.schedule();
  return {schedule.base_of(grant.ticket),
          accepted ? schedule.step_of(grant.ticket) : Done::kRejected};
}

// The parent may wait for a border to be complete.
void OrderedMode::help() noexcept {
  if (commits_.help()) parent_.ring();
}

}  // namespace passel::train
