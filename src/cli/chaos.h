#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "passel/train/coordinator.h"

namespace passel::train {

/// Disturbs a run for as long as it lives: about every 200 ms a SIGKILL to one of its workers, and
/// now and then a SIGSTOP that holds one up for a second. Less often while no ticket gets done.
class Chaos {
 public:
  /// `done` counts the tickets that are done, and outlives this.
  Chaos(Coordinator& coordinator, std::uint32_t workers, const std::atomic<std::int64_t>& done);
  ~Chaos();
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;

 private:
  void run(Coordinator& coordinator, std::uint32_t workers);
  bool pause(std::chrono::milliseconds time);

  const std::atomic<std::int64_t>& done_;
  std::mutex mutex_;  // guards
  std::condition_variable stopped_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace passel::train
