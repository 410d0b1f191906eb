#pragma once

#include <cstdint>
#include <string>

namespace passel::train {

/// What the machine lets one run have. For set-up; any thread.

/// CPUs that this process may run on; 0 where the system does not say.
int cores_allowed();

/// A warning where workers are more than twice the CPUs, so that they mostly wait for each other;
/// empty otherwise, and where `cores` is 0.
std::string crowding(std::int64_t workers, int cores);

/// Throws UsageError where the limit of open files (ulimit -n), less what is open already, leaves
/// too few for a run with so many workers.
void check_open_files(std::int64_t workers);

}  // namespace passel::train
