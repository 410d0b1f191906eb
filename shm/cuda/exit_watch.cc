#include "exit_watch.h"

#include <atomic>
#include <cstdlib>

namespace passel::shm {
namespace {

std::atomic<bool> in_exit{false};

}  // namespace

void watch_exit() {
  // Handlers run in the reverse order of their registration: this one before the destructor of
  // anything static that was there before the first device was used, CUDA's runtime included.
  static const int registered = std::atexit([] { in_exit.store(true); });
  static_cast<void>(registered);
}

bool exiting() noexcept {
  return in_exit.load();
}

}  // namespace passel::shm
