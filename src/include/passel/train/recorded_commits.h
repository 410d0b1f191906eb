#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "passel/train/optimizer.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Makes the parameter versions of a run in the order in which gradients arrive: mode recorded. As
/// in OrderedCommits a commit that was cut off is done again. One object per process, used by one
/// thread.
class RecordedCommits {
 public:
  /// @param process the worker's slot; the number of workers for the parent
  RecordedCommits(const Config& config, const TrainingMemory& memory, std::uint32_t process);

  /// The newest version, which stays as it is until stop_reading().
  std::int64_t read() const noexcept { return arrivals_.read(process_); }
  void stop_reading() const noexcept { arrivals_.stop_reading(process_); }

  /// Hands in the ticket whose gradient was written, and waits for its commit.
  /// @return the version it was applied to
  std::int64_t hand_in(std::int64_t ticket, const Arrival& arrival) noexcept;
  /// Puts a gradient, one part for each parameter, where that of this worker belongs.
  void write(const std::vector<at::Tensor>& parts) const noexcept;

  /// Commits what can be, unless another process is at it.
  bool help() noexcept;
  /// All that was handed in is committed.
  bool settled() noexcept;
  /// For the parent, once the worker is provably dead and has no successor yet.
  void bury(std::uint32_t slot) noexcept;
  /// What was committed of a ticket that the parent does not know as done yet.
  struct Applied {
    Arrival arrival;
    std::int64_t version;
  };
  std::optional<Applied> applied(std::int64_t ticket) const noexcept;

 private:
  Optimizer::Point point(std::int64_t version) const noexcept {
    return {versions_[static_cast<std::size_t>(version) % versions_.size()],
            states_[static_cast<std::size_t>(version) % states_.size()]};
  }

  const device::BlockMemory& memory_;
  Optimizer optimizer_;
  shm::ArrivalRing<Arrival> arrivals_;
  std::vector<std::span<float>> versions_;
  std::vector<OptimizerState> states_;
  std::vector<std::span<float>> gradients_;
  std::uint32_t process_;
};

}  // namespace passel::train
