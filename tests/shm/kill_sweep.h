#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "passel/shm/fork_guard.h"
#include "support.h"

// SIGKILL at every single instruction of an operation, then a survivor that has to go on.
// Single steps show no reordering of stores: that is the part of tests/model.
namespace passel::shm::test {

enum class Stop { kKilled, kFinished, kForbidden };

/// Runs `operation` in a forked process, one instruction at a time, and kills it as soon as `due`
/// says so, which is asked before the first instruction and after each. A fork is good enough here:
/// the operations take no lock that another thread could hold.
inline Stop run_and_kill(const std::function<void()>& operation, const std::function<bool()>& due) {
  const pid_t child = ::fork();
  if (child == 0) {
    detail::fork_state.store(
        detail::kUsed);  // it stands for a worker: no guard may spare it a step
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    operation();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) return Stop::kForbidden;
  while (!due()) {
    if (::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status)) return Stop::kFinished;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return Stop::kKilled;
}

class KillSweep : public ::testing::Test {
 protected:
  static constexpr int kMaxSteps = 2000;

  /// Tracer and tracee take turns: on one processor a step costs a quarter.
  void SetUp() override {
    ASSERT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  void TearDown() override { ::sched_setaffinity(0, sizeof(before_), &before_); }

  /// Kills at instruction 0, 1, 2 ... until the operation comes to its end. Give waits no spins:
  /// each one is stepped through.
  /// @param setting makes the scene
  /// @param check what the survivor finds; is told whether the operation ended by itself
  template <class Setting, class Operation, class Check>
  void sweep(Setting&& setting, Operation&& operation, Check&& check) {
    sweep_kills("instructions", setting, check, [&](auto& scene, int steps) {
      return run_and_kill([&] { operation(scene); }, [&] { return steps-- == 0; });
    });
  }

  /// Kills before the first and after every change of scene.shared(): two kills without a change of
  /// shared memory between them are one and the same to all others. So long operations, which
  /// allocate and lock in private memory, take seconds and not hours.
  template <class Setting, class Operation, class Check>
  void sweep_changes(Setting&& setting, Operation&& operation, Check&& check) {
    const auto check_scene = [&](auto& scene, bool finished) { check(*scene, finished); };
    sweep_kills("changes of shared memory", setting, check_scene, [&](auto& scene, int changes) {
      const std::span<const std::byte> shared = scene->shared();
      std::vector<std::byte> seen(shared.begin(), shared.end());
      return run_and_kill([&] { operation(*scene); },
                          [&] {
                            if (std::memcmp(seen.data(), shared.data(), seen.size()) != 0) {
                              std::ranges::copy(shared, seen.begin());
                              --changes;
                            }
                            return changes == 0;
                          });
    });
  }

 private:
  template <class Setting, class Check, class Run>
  void sweep_kills(const char* unit, Setting&& setting, Check&& check, Run&& run) {
    for (int n = 0; n < kMaxSteps; ++n) {
      auto scene = setting();
      const Stop stop = run(scene, n);
      if (stop == Stop::kForbidden) {
        std::printf("skipped: ptrace is forbidden here (a container profile?)\n");
        GTEST_SKIP() << "ptrace is forbidden here";
      }
      check(scene, stop == Stop::kFinished);
      if (HasFailure()) FAIL() << "killed after " << n << " " << unit;
      if (stop == Stop::kFinished) {
        std::printf("killed after each of %d %s\n", n, unit);
        return;
      }
    }
    FAIL() << "the operation did not end within " << kMaxSteps << " " << unit;
  }

  cpu_set_t before_;
};

/// Runs `wait` in another thread; the constructor returns when that thread is asleep.
class Sleeper {
 public:
  explicit Sleeper(std::function<void()> wait)
      : thread_([this, wait = std::move(wait)] {
          id_.store(::gettid());
          wait();
        }) {
    while (id_.load() == 0 || state() != 'S') std::this_thread::yield();
  }

  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { join(); }

  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  [[nodiscard]] char state() const {
    std::ifstream in("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
    std::string text;
    std::getline(in, text);
    const auto end = text.rfind(") ");
    return end == std::string::npos ? '?' : text[end + 2];
  }

  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

}  // namespace passel::shm::test
