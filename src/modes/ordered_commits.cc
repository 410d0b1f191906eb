#include "passel/train/ordered_commits.h"

#include <algorithm>
#include <cmath>

namespace passel::train {

OrderedCommits::OrderedCommits(const Config& config, const TrainingMemory& memory,
                               std::uint32_t process)
    : schedule_(memory.schedule),
      optimizer_(config, memory.parameters.spans()),
      commits_(memory.commits.value()),
      versions_(memory.versions),
      states_(memory.optimizers),
      gradients_(memory.gradients),
      process_(process),
      sum_(schedule_.group == 1 ? 0 : memory.parameters.values().size()) {}

void OrderedCommits::publish(std::int64_t ticket, const Contribution& contribution) const noexcept {
  commits_.publish(ticket, contribution);
}

bool OrderedCommits::help() noexcept {
  return commits_.help(process_, [this](std::int64_t ticket, const Contribution& contribution) {
    commit(ticket, contribution);
  });
}

void OrderedCommits::bury(std::uint32_t slot) noexcept {
  commits_.bury(slot);
  help();
}

// A step is made with its last ticket. Its version and its optimiser state lie in other memory
// than those it is made from.
void OrderedCommits::commit(std::int64_t ticket, const Contribution& last) noexcept {
  if (!schedule_.ends_step(ticket)) return;
  const std::int64_t step = schedule_.step_of(ticket);
  const std::int64_t first = step * schedule_.group;
  carry_over(step);
  for (std::int64_t t = first; t <= ticket; ++t) {
    if (!commits_.entry(t)->accepted) return;
  }
  const float* const gradients =
      schedule_.group == 1 ? gradient(first).data() : mean_gradient(first);
  const auto gradient = [&](std::size_t i) { return gradients + optimizer_.spans()[i].begin; };
  const double square =
      schedule_.group == 1 ? last.squared_norm : optimizer_.squared_norm(gradient);
  const OptimizerState& state = states_[static_cast<std::size_t>(step + 1) % states_.size()];
  const std::int64_t steps = state.steps->load() + 1;
  optimizer_.apply(versions_[static_cast<std::size_t>(step + 1) % versions_.size()], state,
                   gradient, square, last.lr, steps);
  state.steps->store(steps);
}

void OrderedCommits::carry_over(std::int64_t step) noexcept {
  const auto from = static_cast<std::size_t>(step), to = from + 1;
  std::ranges::copy(versions_[from % versions_.size()], versions_[to % versions_.size()].begin());
  const OptimizerState& before = states_[from % states_.size()];
  const OptimizerState& after = states_[to % states_.size()];
  for (std::size_t s = 0; s < before.blocks.size(); ++s) {
    std::ranges::copy(before.blocks[s], after.blocks[s].begin());
  }
  after.steps->store(before.steps->load());
}

// Added in the order of the tickets: the same bits whoever computed them.
const float* OrderedCommits::mean_gradient(std::int64_t first) noexcept {
  std::ranges::copy(gradient(first), sum_.begin());
  for (std::int64_t t = first + 1; t < first + schedule_.group; ++t) {
    const std::span<const float> next = gradient(t);
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += next[i];
  }
  const float share = 1.0F / static_cast<float>(schedule_.group);
  for (float& value : sum_) value *= share;
  return sum_.data();
}

}  // namespace passel::train
