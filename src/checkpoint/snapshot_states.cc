#include "snapshot_states.h"

#include <algorithm>
#include <span>

namespace passel::train {

shm::ParameterSpan states_span(const Config& config) {
  const std::vector<std::int64_t> shape = {config.lanes, 2, 1, config.batch_size,
                                           config.hidden_size};
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return {.name = "streams/state", .shape = shape, .begin = 0, .count = count};
}

std::vector<float> copy_states(const shm::LaneStates& states) {
  std::vector<float> copies(static_cast<std::size_t>(states.lanes()) * states.floats());
  for (std::int64_t lane = 0; lane < states.lanes(); ++lane) {
    const std::int64_t latest = states.latest(lane);
    if (latest == shm::LaneStates::kNobody) continue;
    std::ranges::copy(states.find(latest), copies.begin() + lane * std::ssize(states.find(latest)));
  }
  return copies;
}

void restore_states(const std::vector<float>& copies, std::int64_t ticket,
                    const shm::LaneStates& states) {
  for (std::int64_t t = std::max<std::int64_t>(0, ticket - states.lanes()); t < ticket; ++t) {
    const auto lane = static_cast<std::size_t>(t % states.lanes());
    states.leave(t, [&](std::span<float> place) {
      std::ranges::copy(std::span(copies).subspan(lane * place.size(), place.size()),
                        place.begin());
    });
  }
}

}  // namespace passel::train
