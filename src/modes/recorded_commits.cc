#include "passel/train/recorded_commits.h"

namespace passel::train {

RecordedCommits::RecordedCommits(const Config& config, const TrainingMemory& memory,
                                 std::uint32_t process)
    : memory_(*memory.blocks),
      optimizer_(config, memory.parameters.spans(), memory_),
      arrivals_(memory.arrivals.value()),
      versions_(memory.versions),
      states_(memory.optimizers),
      gradients_(memory.gradients),
      process_(process) {}

void RecordedCommits::write(const std::vector<at::Tensor>& parts) const noexcept {
  optimizer_.write_gradients(parts, gradients_[process_].data());
  memory_.finish();
}

std::int64_t RecordedCommits::hand_in(std::int64_t ticket, const Arrival& arrival) noexcept {
  arrivals_.hand_in(process_, ticket, arrival);
  arrivals_.bell().wait(
      [&] {
        if (arrivals_.needs_help()) help();
        return arrivals_.free(process_);
      },
      shm::kNoDeadline);
  return arrivals_.version_of(ticket).value_or(arrival.base);
}

bool RecordedCommits::help() noexcept {
  return arrivals_.help(process_, [this](std::int64_t version, const auto& record) {
    const Arrival& arrival = record.entry;
    const float* const values = gradients_[record.process].data();
    const auto gradient = [&](std::size_t i) { return values + optimizer_.spans()[i].begin; };
    const Optimizer::Point from = point(version), to = point(version + 1);
    const std::int64_t steps = from.state.steps->load() + 1;
    optimizer_.apply(from, to, gradient, arrival.squared_norm,
                     optimizer_.stale_lr(arrival.lr, version - arrival.base), steps);
    to.state.steps->store(steps);
  });
}

bool RecordedCommits::settled() noexcept {
  help();
  return arrivals_.settled();
}

void RecordedCommits::bury(std::uint32_t slot) noexcept {
  arrivals_.bury(slot);
  help();
}

std::optional<RecordedCommits::Applied> RecordedCommits::applied(
    std::int64_t ticket) const noexcept {
  const auto version = arrivals_.version_of(ticket);
  if (!version) return std::nullopt;
  return Applied{arrivals_.record(*version).entry, *version};
}

}  // namespace passel::train
