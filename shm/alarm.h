#pragma once

#include <condition_variable>
#include <mutex>

#include "passel/shm/deadline.h"

namespace passel::shm {

/// Wakes one thread of this process. Under no other lock than its own, so that it can be rung from
/// where another lock may be waited for.
class Alarm {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    condition_.notify_one();
  }

  /// Returns after a ring() since the last return, or at the deadline.
  void wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    condition_.wait_until(lock, deadline, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool rung_ = false;
};

}  // namespace passel::shm
