#pragma once

#include <span>
#include <vector>

#include "passel/shm/arrival_ring.h"
#include "shm/commit_ring_scene.h"

namespace passel::shm::test {

/// An arrival ring with its states: version n lies in slot n % versions.
class ArrivalScene {
 public:
  static constexpr std::uint32_t kProcesses = 4;
  static constexpr std::uint32_t kWindow = 64;

  struct Entry {
    std::uint64_t contribution;
    std::uint64_t copy;  // torn, if it is another
  };

  explicit ArrivalScene(std::uint32_t versions = 3) : versions_(versions) {}

  void hand_in(std::uint32_t process, std::int64_t ticket) const {
    ring.hand_in(process, ticket, {contribution_of(ticket), contribution_of(ticket)});
  }

  bool help(std::uint32_t process) const {
    return ring.help(process, [&](std::int64_t version, const auto& record) {
      if (record.entry.contribution != record.entry.copy) __builtin_trap();
      state(version + 1) = next_state(state(version), record.entry.contribution);
    });
  }

  [[nodiscard]] CommitState& state(std::int64_t version) const {
    return states[static_cast<std::size_t>(version) % versions_];
  }

  /// Tickets in the order of their commits, of a ring that remembers all.
  [[nodiscard]] std::vector<std::int64_t> order() const {
    std::vector<std::int64_t> tickets;
    for (std::int64_t v = 0; v < ring.committed(); ++v) tickets.push_back(ring.record(v).ticket);
    return tickets;
  }

 private:
  std::uint32_t versions_;

 public:
  Arena arena = Arena::create("arrivals", 1 << 16);
  ArrivalRing<Entry> ring = ArrivalRing<Entry>::create(
      arena, "ring", {.processes = kProcesses, .versions = versions_, .window = kWindow});
  std::span<CommitState> states = arena.construct_array<CommitState>("states", versions_);
};

/// The state after commits of these tickets in this order.
inline CommitState state_after(std::span<const std::int64_t> tickets) {
  CommitState state{};
  for (const std::int64_t ticket : tickets) state = next_state(state, contribution_of(ticket));
  return state;
}

}  // namespace passel::shm::test
