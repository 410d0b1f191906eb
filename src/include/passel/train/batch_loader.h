#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passel/train/batch_plan.h"
#include "passel/train/config.h"
#include "passel/train/dataset.h"
#include "passel/train/learning_rate.h"
#include "passel/train/training_memory.h"

namespace passel::train {

/// Fills leased batch buffers with the batch of a ticket. For the parent's
/// coordinating thread; the data set must be loaded and outlive it.
class BatchLoader {
 public:
  BatchLoader(const Dataset& dataset, BatchPlan plan, const Config& config, const shm::Arena& arena,
              std::span<std::byte> batches);

  /// Writes batch(ticket) into the leased buffer and returns the grant for it.
  Grant fill(std::int64_t ticket, const shm::Lease& lease) { return fill(ticket, ticket, lease); }
  /// The same with the batch and the learning rate of another ticket.
  /// @param anew of a stateful run: no row has a past
  Grant fill(std::int64_t ticket, std::int64_t batch, const shm::Lease& lease, bool anew = false);

  const BatchPlan& plan() const { return plan_; }
  const LearningRate& lr() const { return lr_; }

 private:
  at::Tensor fresh_rows(std::int64_t batch, bool anew, std::span<std::byte> memory);

  const Dataset& dataset_;
  BatchPlan plan_;
  LearningRate lr_;
  const shm::Arena& arena_;
  std::span<std::byte> batches_;
  std::size_t stride_;
  bool stateful_;
  std::vector<std::int64_t> indices_;  // of the batch being filled
};

/// x and target tensors over `memory`, which has batch_bytes(): x [T, n, I] at
/// its start, target [n] behind it. Filled from the samples of `indices` [n].
struct Batch {
  at::Tensor x;
  at::Tensor target;
  std::span<std::byte> rest;  // of `memory`
};
Batch fill_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices,
                 std::span<std::byte> memory);

}  // namespace passel::train
