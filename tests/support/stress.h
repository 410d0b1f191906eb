#pragma once

#include <cstdlib>

namespace passel::testing {

/// A test's size: `full` under `make stress` (PASSEL_STRESS is set), `brief` otherwise.
template <typename T>
T stress_size(T brief, T full) {
  return std::getenv("PASSEL_STRESS") == nullptr ? brief : full;
}

}  // namespace passel::testing
