#pragma once

#include <atomic>
#include <cstdint>

namespace passel::shm {

/// What a ProcessContext tells all its workers, in the arena.
struct RunControl {
  static constexpr const char* kName = "passel.control";

  /// 1: finish in order. Stored by the parent, never taken back. Sequentially consistent: whoever
  /// sleeps on a doorbell looks at it in the predicate, and the store comes before the bells.
  std::atomic<std::uint32_t> stop;
  std::uint32_t nprocs;  ///< written before the first spawn
};

}  // namespace passel::shm
