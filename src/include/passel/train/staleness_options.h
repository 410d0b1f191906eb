#pragma once

#include <cstdint>

#include "passel/train/config.h"

namespace passel::train {

/// Momentum that asynchrony adds by itself: with M workers, so that a gradient is M - 1 updates old
/// in the mean, the parameters move as with momentum 1 - 1 / M. Mitliagkas, Zhang, Hadjis, Ré:
/// "Asynchrony begets momentum, with an application to deep learning", 2016 (arXiv 1605.09774).
/// @param staleness the mean, M - 1; not negative
double implied_momentum(double staleness) noexcept;

/// The momentum to use for `--momentum` in all: with --momentum-correction less what asynchrony
/// adds, at least 0. The staleness is that of the configuration, not the measured one: --staleness
/// in mode ordered, the other workers in mode hogwild.
double explicit_momentum(const Config& config) noexcept;

/// Factor on the learning rate of an update: (1 + staleness)^-exponent. 1 for the exponent 0.
/// With exponent 1 the rule of Zhang, Gupta, Lian, Liu: "Staleness-aware async-SGD for distributed
/// deep learning", IJCAI 2016 (arXiv 1511.05950), without its division by 0.
double staleness_factor(double exponent, std::int64_t staleness) noexcept;

}  // namespace passel::train
