#pragma once

#include <cstdint>
#include <span>

#include "passel/train/mode.h"
#include "passel/train/optimizer.h"

namespace passel::train {

/// Hogwild (Niu, Recht, Re, Wright, 2011): a gradient is computed from the live parameters and
/// applied to them in place, without locks. Optimiser state and its step count are shared, or
/// those of the worker's slot.
class HogwildMode final : public Mode {
 public:
  HogwildMode(const Config& config, const TrainingMemory& memory, Parameters parameters,
              std::uint32_t slot);

  bool begin(const Grant& grant, const std::function<bool()>& news) override;
  Versions commit(const Grant& grant, const device::Gradient& gradient) noexcept override;

 private:
  Optimizer optimizer_;
  Parameters parameters_;
  OptimizerState state_;
  std::span<float> values_;
  RunCounters* counters_;
  std::int64_t base_ = 0;
};

}  // namespace passel::train
