#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contestant.h"
#include "counters.h"
#include "fma_peak.h"

namespace bench {

struct RoundsOptions {
  int rounds;
  double seconds_per_turn;
};

/// Medians over the rounds.
struct Result {
  struct Part {
    std::string name;
    Work work;
    double fraction;  ///< of the peak measured just before, in the same round
    double seconds;
  };

  std::string kind, side;
  std::vector<Part> parts;  ///< as the contestant's, and their sum as "training" if there are two
  double peak;              ///< FLOP/s
  std::optional<Counters::Values> counters;  ///< of all parts together, once each
};

/// Lets all contestants take a turn in each round, each after a measurement of the peak: clocks
/// drift, and others run on the machine.
std::vector<Result> run_rounds(const std::vector<Contestant>& contestants, const FmaPeak& peak,
                               const Counters& counters, const RoundsOptions& options);

}  // namespace bench
