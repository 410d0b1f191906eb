#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "passel/shm/chunk_table.h"
#include "passel/shm_torch/record_queue.h"
#include "passel/shm_torch/tensor_queue.h"

namespace passel::shm::test {

/// Three processes' views of one arena, in one process: 0 is the parent.
class Exchanges : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kProcesses = 3;

  explicit Exchanges(std::uint64_t region_bytes = std::uint64_t{1} << 20)
      : arena_(std::make_shared<Arena>(
            Arena::create("test", kProcesses * region_bytes + (std::size_t{4} << 20)))) {
    ChunkTable::create(*arena_,
                       {.processes = kProcesses, .chunks = 64, .region_bytes = region_bytes});
    for (std::uint32_t p = 0; p < kProcesses; ++p) restart(p);
  }

  /// As if process p had died and another begun; its exchange is a new one.
  void restart(std::uint32_t p) { exchanges_[p] = std::make_shared<TensorExchange>(arena_, p); }

  TensorExchange& at(std::uint32_t p) { return *exchanges_[p]; }

  /// A queue to process `reader`, as seen by the parent.
  TensorQueue create_queue(const std::string& name, std::uint32_t reader,
                           std::uint32_t capacity = 8, std::uint32_t readers = 1) {
    return TensorQueue(TensorQueue::Channel::create(*arena_, exchanges_[0], name, capacity,
                                                    {.first = reader, .count = readers}));
  }
  TensorQueue open_queue(const std::string& name, std::uint32_t process) {
    return TensorQueue(TensorQueue::Channel::open(exchanges_[process], name));
  }

  std::uint64_t in_use(std::uint32_t p) {
    at(p).ledger().collect();
    return at(p).ledger().bytes_in_use();
  }

  std::shared_ptr<Arena> arena_;
  std::array<std::shared_ptr<TensorExchange>, kProcesses> exchanges_;
};

}  // namespace passel::shm::test
