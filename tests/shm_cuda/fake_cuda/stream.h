#pragma once

#include <driver_types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace passel::fake_cuda {

/// A queue of work and the thread that does it, one piece after the other.
class Stream {
 public:
  explicit Stream(int device);

  /// Returns at once; `work` runs when all before it is done.
  void push(std::function<void()> work);
  /// Until all that was pushed is done.
  void synchronize();
  /// Ends the thread once all is done.
  void retire();
  [[nodiscard]] int device() const { return state_->device; }

 private:
  struct State {
    int device;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    std::uint64_t pushed = 0;
    std::uint64_t done = 0;
    bool retired = false;
  };
  static void run(const std::shared_ptr<State>& state);

  // Shared with the thread, which is detached: exit() waits for no stream.
  std::shared_ptr<State> state_;
};

/// The stream behind a handle; nullptr is the current device's default stream.
/// @return nullptr when there is none
Stream* find_stream(cudaStream_t handle);
void synchronize_device(int device);

}  // namespace passel::fake_cuda
