#pragma once

#include <algorithm>
#include <cstdint>

namespace passel::train {

/// How many times longer whoever kills workers is to wait: twice as long after each kill that no
/// ticket was done before, up to 64 times. Where starts are slow (a loaded machine) a run would
/// never end otherwise.
class Patience {
 public:
  /// @param done tickets done so far
  int factor(std::int64_t done) {
    factor_ = done > seen_ ? 1 : std::min(2 * factor_, 64);
    seen_ = done;
    return factor_;
  }

 private:
  std::int64_t seen_ = -1;
  int factor_ = 1;
};

}  // namespace passel::train
