#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <random>

#include "passel/shm/deadline.h"
#include "passel/shm/supervisor.h"

namespace passel::shm::test {

/// SIGKILLs to random workers at random moments, and the books about how workers ended.
class RandomKills {
 public:
  /// @param most between two kills
  RandomKills(unsigned seed, std::chrono::microseconds most)
      : random_(seed), most_(static_cast<std::uint64_t>(most.count())) {}

  /// Kills one of the workers, unless it is too early for the next kill.
  void strike(Supervisor& supervisor, std::uint32_t workers) {
    if (Clock::now() < next_) return;
    kills_ += supervisor.kill(random_() % workers, SIGKILL) ? 1 : 0;
    next_ = after(std::chrono::microseconds(random_() % most_));
  }

  /// @param may_end the worker had reason to end by itself
  void note(const WorkerExit& exit, bool may_end) {
    const bool killed = exit.kind == WorkerExit::Kind::kSignalled && exit.code == SIGKILL;
    deaths_ += killed;
    odd_ends_ += !killed && (!may_end || exit.failed());
  }

  [[nodiscard]] std::uint64_t kills() const { return kills_; }
  [[nodiscard]] std::uint64_t deaths() const { return deaths_; }
  /// Neither by SIGKILL nor, where they may, by themselves.
  [[nodiscard]] std::uint64_t odd_ends() const { return odd_ends_; }

 private:
  std::mt19937 random_;
  std::uint64_t most_;
  std::uint64_t kills_ = 0;
  std::uint64_t deaths_ = 0;
  std::uint64_t odd_ends_ = 0;
  Deadline next_ = Clock::now();
};

}  // namespace passel::shm::test
