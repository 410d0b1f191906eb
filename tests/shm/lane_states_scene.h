#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "passel/shm/commit_ring.h"
#include "passel/shm/lane_states.h"

namespace passel::shm::test {

/// What a ticket leaves: made of what it began with and of its number.
using LaneState = std::array<float, 3>;

inline LaneState next_lane_state(std::span<const float> before, std::int64_t ticket) {
  LaneState next{};
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i] = (before.empty() ? 0 : before[(i + 1) % next.size()]) / 2 +
              static_cast<float>(ticket * 3 + static_cast<std::int64_t>(i) + 1);
  }
  return next;
}

/// The state that the ticket leaves, computed without shared memory.
inline LaneState serial_lane_state(std::int64_t ticket, std::int64_t lanes) {
  if (ticket < lanes) return next_lane_state({}, ticket);
  return next_lane_state(serial_lane_state(ticket - lanes, lanes), ticket);
}

/// Tickets that carry states in lanes and are handed in to a commit ring, as in a training run.
class LaneScene {
 public:
  static constexpr std::int64_t kLanes = 2;

  struct Entry {
    float sum;  // of the state, as a loss would be
  };

  /// What a worker does with a ticket, the hand-in included.
  void compute(std::int64_t ticket) const {
    const LaneState left = next_lane_state(states.find(ticket - kLanes), ticket);
    states.leave(ticket, [&](std::span<float> place) {
      for (std::size_t i = 0; i < left.size(); ++i) place[i] = left[i];
    });
    ring.publish(ticket, {left[0] + left[1] + left[2]});
  }

  bool help(std::uint32_t process) const {
    return ring.help(process, [](std::int64_t, const Entry&) {});
  }

  Arena arena = Arena::create("lanes", 1 << 14);
  LaneStates states = LaneStates::create(arena, "states", kLanes, 3);
  CommitRing<Entry> ring = CommitRing<Entry>::create(arena, "ring", 8);
};

}  // namespace passel::shm::test
