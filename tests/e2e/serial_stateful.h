#pragma once

#include <cstdint>
#include <string>

#include "passel/train/config.h"

namespace passel::testing {

struct SerialResult {
  std::string param_hash;
  double test_loss;
};

/// What comes of `tickets` tickets of a stateful run of mode ordered or sync with adam or sgd, by a
/// plain loop in this process: no shared memory, no tickets that are granted, nothing of the batch
/// plan or the modes. One list of all versions ever made, one state a lane.
SerialResult serial_stateful(const train::Config& config, std::int64_t tickets);

}  // namespace passel::testing
