#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "passel/shm/commit_ring.h"

namespace passel::shm::test {

/// A state of several words that is made from the one before and a ticket's contribution; in which
/// order shows in every bit.
using CommitState = std::array<std::uint64_t, 3>;

inline CommitState next_state(const CommitState& state, std::uint64_t contribution) {
  CommitState next{};
  std::uint64_t word = contribution;
  for (std::size_t i = 0; i < next.size(); ++i) {
    word = (word ^ state[i]) * 0x9e3779b97f4a7c15U;
    word ^= word >> 29;
    next[i] = word;
  }
  return next;
}

inline std::uint64_t contribution_of(std::int64_t ticket) {
  return static_cast<std::uint64_t>(ticket) * 7 + 1;
}

/// The state after `tickets` commits in order.
inline CommitState serial_state(std::int64_t tickets) {
  CommitState state{};
  for (std::int64_t t = 0; t < tickets; ++t) state = next_state(state, contribution_of(t));
  return state;
}

/// A commit ring with its states: version n lies in slot n % kVersions.
class CommitScene {
 public:
  static constexpr std::size_t kVersions = 2;
  static constexpr std::uint32_t kWindow = 4;

  struct Entry {
    std::uint64_t contribution;
    std::uint64_t copy;  // torn, if it is another
  };

  void publish(std::int64_t ticket) const {
    ring.publish(ticket, {contribution_of(ticket), contribution_of(ticket)});
  }

  bool help(std::uint32_t process) const {
    return ring.help(process, [&](std::int64_t ticket, const Entry& entry) {
      if (entry.contribution != entry.copy) __builtin_trap();
      state(ticket + 1) = next_state(state(ticket), entry.contribution);
    });
  }

  [[nodiscard]] CommitState& state(std::int64_t version) const {
    return states[static_cast<std::size_t>(version) % kVersions];
  }

  Arena arena = Arena::create("commits", 1 << 14);
  CommitRing<Entry> ring = CommitRing<Entry>::create(arena, "ring", kWindow);
  std::span<CommitState> states = arena.construct_array<CommitState>("states", kVersions);
};

}  // namespace passel::shm::test
