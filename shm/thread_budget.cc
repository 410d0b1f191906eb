#include "thread_budget.h"

#include <sched.h>

#include <algorithm>

namespace passel::shm {
namespace {

std::uint32_t allowed_processors() {
  // The kernel refuses a set that is smaller than its own.
  for (std::size_t count = 1; count <= 1024; count *= 2) {
    std::vector<cpu_set_t> sets(count);
    const std::size_t bytes = count * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, sets.data()) == 0) {
      return static_cast<std::uint32_t>(CPU_COUNT_S(bytes, sets.data()));
    }
  }
  return 1;
}

}  // namespace

std::uint32_t fair_threads(std::uint32_t workers) {
  return std::max(1U, allowed_processors() / workers);
}

std::vector<std::string> thread_limits(std::uint32_t threads) {
  const std::string count = std::to_string(threads);
  return {"OMP_NUM_THREADS=" + count, "MKL_NUM_THREADS=" + count};
}

}  // namespace passel::shm
