#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passel/train/optimizer.h"
#include "passel/train/schedule.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Makes the parameter versions of a run in the order of its tickets: modes ordered and sync. What
/// a commit writes is not what it reads, so one that a SIGKILL cut off is done again with the same
/// result (see shm::CommitRing). One object per process, used by one thread.
class OrderedCommits {
 public:
  /// @param process the worker's slot; the number of workers for the parent
  OrderedCommits(const Config& config, const TrainingMemory& memory, std::uint32_t process);

  /// Hands in a ticket whose gradient is complete in gradient(ticket).
  void publish(std::int64_t ticket, const Contribution& contribution) const noexcept;
  /// Commits what can be, unless another process is at it.
  bool help() noexcept;
  /// Tickets before this one are committed.
  bool committed(std::int64_t ticket) const noexcept { return commits_.committed() >= ticket; }
  bool needs_help() const noexcept { return commits_.needs_help(); }
  shm::Doorbell& bell() const noexcept { return commits_.bell(); }

  /// Puts a gradient, one part for each parameter, where that of the ticket belongs.
  void write(std::int64_t ticket, const std::vector<at::Tensor>& parts) const noexcept;
  /// Where the ticket's gradient belongs, laid out as the parameters.
  std::span<float> gradient(std::int64_t ticket) const noexcept {
    return gradients_[static_cast<std::size_t>(ticket) % gradients_.size()];
  }
  /// What was published of a ticket that the parent does not know as done yet.
  std::optional<Contribution> published(std::int64_t ticket) const noexcept {
    return commits_.entry(ticket);
  }
  /// For the parent, once the worker is provably dead and has no successor yet: what it was at is
  /// done here.
  void bury(std::uint32_t slot) noexcept;

  const Schedule& schedule() const noexcept { return schedule_; }
  Optimizer& optimizer() noexcept { return optimizer_; }

 private:
  struct StepGradient {
    const float* values;  // laid out as the parameters
    double squared_norm;
  };

  void commit(std::int64_t ticket, const Contribution& last) noexcept;
  void carry_over(std::int64_t step) noexcept;
  StepGradient gradient_of_step(std::int64_t step, const Contribution& last) noexcept;
  void mean_gradient(std::int64_t first) noexcept;
  void compensate(std::int64_t step) noexcept;
  std::span<float> version(std::int64_t number) const noexcept {
    return versions_[static_cast<std::size_t>(number) % versions_.size()];
  }
  /// The version with the optimiser state that goes with it.
  Optimizer::Point point(std::int64_t number) const noexcept {
    return {version(number), states_[static_cast<std::size_t>(number) % states_.size()]};
  }

  Schedule schedule_;
  device::BlockMemory& memory_;
  Optimizer optimizer_;
  shm::CommitRing<Contribution> commits_;
  std::vector<std::span<float>> versions_;
  std::vector<OptimizerState> states_;
  std::vector<std::span<float>> gradients_;
  std::uint32_t process_;
  float compensation_;
  std::span<float> made_;  // a step's gradient, where it is not a ticket's as it is
};

}  // namespace passel::train
