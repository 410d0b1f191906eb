#include "passel/train/staleness_options.h"

#include <algorithm>
#include <cmath>

namespace passel::train {

double implied_momentum(double staleness) noexcept {
  return 1 - 1 / (1 + staleness);
}

double explicit_momentum(const Config& config) noexcept {
  if (!config.momentum_correction) return config.momentum;
  const std::int64_t staleness = config.mode == "ordered" ? config.staleness : config.workers - 1;
  return std::max(0.0, config.momentum - implied_momentum(static_cast<double>(staleness)));
}

double staleness_factor(double exponent, std::int64_t staleness) noexcept {
  return exponent == 0 ? 1 : std::pow(1 + static_cast<double>(staleness), -exponent);
}

}  // namespace passel::train
