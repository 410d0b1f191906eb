#include "passel/shm/fork_guard.h"

#include <pthread.h>

#include "passel/shm/error.h"

namespace passel::shm::detail {

std::atomic<ForkState> fork_state{kUnused};

void note_first_use() {
  // Not reached by posix_spawn, which runs no handlers.
  static const int code = ::pthread_atfork(nullptr, nullptr, [] { fork_state.store(kForked); });
  if (code != 0) throw Error("watch for fork()", code);
  ForkState state = kUnused;
  if (fork_state.compare_exchange_strong(state, kUsed) || state == kUsed) return;
  throw Error("use shared memory in a forked process", 0,
              "fork() copies neither the threads nor the state of the locks that this needs: start "
              "processes with a registered entry, or fork before the first use");
}

}  // namespace passel::shm::detail
