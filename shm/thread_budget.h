#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace passel::shm {

/// How many compute threads each of `workers` gets when they share the processors that the calling
/// thread may run on; at least 1.
std::uint32_t fair_threads(std::uint32_t workers);

/// The environment that limits a worker to so many. Set before exec, because libraries read it
/// once, when they are loaded: without it each worker starts a team as large as the machine.
std::vector<std::string> thread_limits(std::uint32_t threads);

}  // namespace passel::shm
