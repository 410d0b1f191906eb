#include "chaos.h"

#include <chrono>
#include <csignal>
#include <random>

#include "passel/shm/start_thread.h"
#include "patience.h"

namespace passel::train {

using std::chrono::milliseconds;

Chaos::Chaos(Coordinator& coordinator, std::uint32_t workers, const std::atomic<std::int64_t>& done)
    : done_(done),
      thread_(shm::start_thread("start the thread that kills",
                                [this, &coordinator, workers] { run(coordinator, workers); })) {}

Chaos::~Chaos() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void Chaos::run(Coordinator& coordinator, std::uint32_t workers) {
  std::minstd_rand random;
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random()) % limit;
  };
  Patience patience;
  while (pause(patience.factor(done_) * milliseconds(50 + below(300)))) {
    const std::uint32_t slot = below(workers);
    if (below(8) != 0) {
      coordinator.signal_worker(slot, SIGKILL);
      continue;
    }
    coordinator.signal_worker(slot, SIGSTOP);
    pause(milliseconds(1000));
    coordinator.signal_worker(slot, SIGCONT);
  }
}

// False: it is to end.
bool Chaos::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, time, [this] { return stop_; });
}

}  // namespace passel::train
