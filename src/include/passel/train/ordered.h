#pragma once

#include "passel/train/mode.h"
#include "passel/train/ordered_commits.h"

namespace passel::train {

/// Modes ordered and sync: each ticket is computed from the version that its number says, and
/// applied in the order of tickets. The result depends neither on how many workers there are nor on
/// how fast they are or how they die.
class OrderedMode final : public Mode {
 public:
  OrderedMode(const Config& config, const TrainingMemory& memory, Parameters parameters,
              std::uint32_t slot);

  bool begin(const Grant& grant, const std::function<bool()>& news) override;
  Versions commit(const Grant& grant, const device::Gradient& gradient) noexcept override;

 private:
  void help() noexcept;

  OrderedCommits commits_;
  Parameters parameters_;
  shm::Doorbell& parent_;
};

}  // namespace passel::train
