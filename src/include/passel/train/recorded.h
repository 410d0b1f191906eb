#pragma once

#include "passel/train/mode.h"
#include "passel/train/recorded_commits.h"

namespace passel::train {

/// Mode recorded: a gradient is computed from the newest version, which stays whole meanwhile, and
/// applied when it arrives. What was computed from what, and when it was applied, is noted by the
/// parent: with that the run can be repeated bit by bit.
class RecordedMode final : public Mode {
 public:
  RecordedMode(const Config& config, const TrainingMemory& memory, Parameters parameters,
               std::uint32_t slot);

  bool begin(const Grant& grant, const std::function<bool()>& news) override;
  Versions commit(const Grant& grant, const device::Gradient& gradient) noexcept override;

 private:
  RecordedCommits commits_;
  Parameters parameters_;
  std::int64_t base_ = 0;
  shm::Doorbell& parent_;
};

}  // namespace passel::train
