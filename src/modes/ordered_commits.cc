#include "passel/train/ordered_commits.h"

#include <algorithm>
#include <cmath>

namespace passel::train {

OrderedCommits::OrderedCommits(const Config& config, const TrainingMemory& memory,
                               std::uint32_t process)
    : schedule_(memory.schedule),
      memory_(*memory.blocks),
      optimizer_(config, memory.parameters.spans(), memory_),
      commits_(memory.commits.value()),
      versions_(memory.versions),
      states_(memory.optimizers),
      gradients_(memory.gradients),
      process_(process),
      compensation_(static_cast<float>(config.delay_compensation)),
      made_(schedule_.group == 1 && compensation_ == 0
                ? std::span<float>()
                : memory_.scratch(memory.parameters.values().size())) {}

void OrderedCommits::write(std::int64_t ticket,
                           const std::vector<at::Tensor>& parts) const noexcept {
  optimizer_.write_gradients(parts, gradient(ticket).data());
  memory_.finish();
}

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
  for (std::int64_t t = step * schedule_.group; t <= ticket; ++t) {
    if (!commits_.entry(t)->accepted) return carry_over(step);
  }
  const StepGradient made = gradient_of_step(step, last);
  const auto gradient = [&](std::size_t i) { return made.values + optimizer_.spans()[i].begin; };
  const Optimizer::Point from = point(step), to = point(step + 1);
  const std::int64_t steps = from.state.steps->load() + 1;
  const double lr = optimizer_.stale_lr(last.lr, step - schedule_.base_of(ticket));
  optimizer_.apply(from, to, gradient, made.squared_norm, lr, steps);
  to.state.steps->store(steps);
}

// The compensation, of the third power of the gradient, may overflow where the gradient does not:
// then the gradient is taken as it is.
OrderedCommits::StepGradient OrderedCommits::gradient_of_step(std::int64_t step,
                                                              const Contribution& last) noexcept {
  const std::int64_t first = step * schedule_.group;
  const StepGradient plain{gradient(first).data(), last.squared_norm};
  if (made_.empty()) return plain;
  if (schedule_.group > 1) {
    mean_gradient(first);
  } else {
    compensate(step);
  }
  const double square = optimizer_.squared_norm(made_.data());
  if (schedule_.group == 1 && !std::isfinite(square)) return plain;
  return {made_.data(), square};
}

void OrderedCommits::compensate(std::int64_t step) noexcept {
  const auto base = version(schedule_.base_of(step));
  memory_.compensate_delay(compensation_, gradient(step).data(), version(step).data(), base.data(),
                           made_.data(), made_.size());
}

void OrderedCommits::carry_over(std::int64_t step) noexcept {
  const Optimizer::Point from = point(step), to = point(step + 1);
  memory_.copy(from.values.data(), to.values.data(), from.values.size());
  for (std::size_t s = 0; s < from.state.blocks.size(); ++s) {
    const std::span<const float> block = from.state.blocks[s];
    memory_.copy(block.data(), to.state.blocks[s].data(), block.size());
  }
  memory_.finish();
  to.state.steps->store(from.state.steps->load());
}

// Added in the order of the tickets: the same bits whoever computed them.
void OrderedCommits::mean_gradient(std::int64_t first) noexcept {
  memory_.copy(gradient(first).data(), made_.data(), made_.size());
  for (std::int64_t t = first + 1; t < first + schedule_.group; ++t) {
    memory_.add(made_.data(), gradient(t).data(), made_.size());
  }
  memory_.scale(made_.data(), 1.0F / static_cast<float>(schedule_.group), made_.size());
}

}  // namespace passel::train
