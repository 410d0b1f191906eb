#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "shm/support.h"

namespace passel::shm::test {

/// Threads that share the tickets 0 .. tickets of a scene with a commit ring, as workers do: each
/// helps until `may_begin(ticket)`, calls `compute(ticket)`, which publishes it, and helps again.
template <class Scene, class MayBegin, class Compute>
void run_team(const Scene& scene, int threads, std::int64_t tickets, MayBegin&& may_begin,
              Compute&& compute) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::jthread> team;
  for (int i = 0; i < threads; ++i) {
    team.emplace_back([&, i] {
      const auto self = static_cast<std::uint32_t>(i);
      for (std::int64_t ticket = next++; ticket < tickets; ticket = next++) {
        const auto ready = [&] {
          if (scene.ring.needs_help()) scene.help(self);
          return may_begin(ticket);
        };
        ASSERT_TRUE(scene.ring.bell().wait(ready, patience()));
        compute(ticket);
        scene.help(self);
      }
    });
  }
}

}  // namespace passel::shm::test
