#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "passel/train/coordinator.h"

namespace passel::train {

/// Disturbs a run for as long as it lives: about every 200 ms a SIGKILL to one of its workers, and
/// now and then a SIGSTOP that holds one up for a second.
class Chaos {
 public:
  Chaos(Coordinator& coordinator, std::uint32_t workers);
  ~Chaos();
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;

 private:
  void run(Coordinator& coordinator, std::uint32_t workers);
  bool pause(std::chrono::milliseconds time);

  std::mutex mutex_;  // guards
  std::condition_variable stopped_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace passel::train
