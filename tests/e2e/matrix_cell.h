#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace passel::testing {

enum class Disturbance { kNone, kKills, kStop };

/// One way to do a training run whose result is to be the same in all of them.
struct Cell {
  int workers;
  int repeat;
  bool loaded;  ///< by a spinning thread a core, and by other cells
  Disturbance disturbance;
  bool resumed;  ///< stopped by SIGTERM at a random ticket and resumed with other workers

  /// As PASSEL_CELL names it: "3-workers-loaded-killed-resumed-0".
  std::string name() const;
};

/// All of them: 4 numbers of workers x 2 loads x 3 disturbances x 2 ways x repeats.
std::vector<Cell> all_cells(int repeats);

/// A command line that trains `tickets` tickets into a folder of its own, to which --out and
/// --workers are still to be added.
struct Job {
  std::vector<std::string> train;
  std::int64_t tickets;
  std::uint64_t seed;  ///< of what is random in a cell; with the cell's name
};

/// What came of a cell.
struct Trial {
  std::string hash;   ///< of the parameters; empty where the run failed
  int disturbed = 0;  ///< signals that reached a worker
  std::string story;  ///< the command lines, and when it was stopped, for people
};

/// Runs a cell and waits for its end. From any thread.
Trial run_cell(const Job& job, const Cell& cell);

}  // namespace passel::testing
