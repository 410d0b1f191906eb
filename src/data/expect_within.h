#pragma once

#include <cstdint>
#include <string>

#include "passel/train/errors.h"

namespace passel::train {

/// Throws UsageError where the size of a generated data set is out of range.
inline void expect_within(const std::string& dataset, std::int64_t value, std::int64_t least,
                          std::int64_t most, const char* what) {
  if (value < least || value > most) {
    throw UsageError(dataset + " needs " + what + " from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", not " + std::to_string(value));
  }
}

}  // namespace passel::train
