#include "passel/train/machine_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>

#include "passel/train/errors.h"
#include "passel/train/wording.h"

namespace passel::train {
namespace {

// Counted in /proc/PID/fd: the folder's lock, metrics, curves, shared memory, the supervisor's
// three (epoll, eventfd, signalfd) and a few for what is open for a moment, as checkpoints are.
constexpr std::int64_t kFilesOfARun = 9;
constexpr std::int64_t kFilesOfAWorker = 1;  // its pidfd

/// The numbers below `limit` that are taken; the first `wanted` free ones are enough to know.
rlim_t files_open(rlim_t limit, rlim_t wanted) {
  rlim_t open = 0;
  for (rlim_t fd = 0; fd < limit && fd - open < wanted; ++fd) {
    if (::fcntl(static_cast<int>(fd), F_GETFD) >= 0) ++open;
  }
  return open;
}

}  // namespace

int cores_allowed() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

std::string crowding(std::int64_t workers, int cores) {
  if (cores == 0 || workers <= 2 * std::int64_t{cores}) return {};
  return fmt::format(
      "{} on {}: they wait for each other; training goes on. Usual is one worker a CPU (--workers "
      "{})",
      counted(workers, "worker"), counted(cores, "CPU"), cores);
}

void check_open_files(std::int64_t workers) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto wanted = static_cast<rlim_t>(kFilesOfARun + kFilesOfAWorker * workers);
  const rlim_t open = files_open(limit.rlim_cur, wanted);
  if (limit.rlim_cur >= open + wanted) return;
  throw UsageError(fmt::format(
      "workers: expected a limit of {} open files or more for {} ({} a run, {} a worker, {} open "
      "already), got {}. Raise it with `ulimit -n {}`, or use fewer --workers",
      open + wanted, counted(workers, "worker"), kFilesOfARun, kFilesOfAWorker, open,
      limit.rlim_cur, open + wanted));
}

}  // namespace passel::train
