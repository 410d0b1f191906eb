#include "passel/train/batch_loader.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace passel::train {

Batch fill_batch(const Dataset& dataset, Split split, std::span<const std::int64_t> indices,
                 std::span<std::byte> memory) {
  const SampleShape shape = dataset.shape();
  const auto n = static_cast<std::int64_t>(indices.size());
  auto* x = reinterpret_cast<float*>(memory.data());
  const auto x_bytes = static_cast<std::size_t>(shape.steps * n * shape.features) * sizeof(float);
  std::byte* target = memory.data() + (x_bytes + 63) / 64 * 64;

  Targets targets;
  if (shape.classes > 0) {
    targets.labels = reinterpret_cast<std::int64_t*>(target);
  } else {
    targets.values = reinterpret_cast<float*>(target);
  }
  dataset.fill(split, indices, x, targets);
  const auto target_type = shape.classes > 0 ? at::kLong : at::kFloat;
  return {at::from_blob(x, {shape.steps, n, shape.features}, at::kFloat),
          at::from_blob(target, {n}, target_type),
          {target + n * static_cast<std::int64_t>(sizeof(std::int64_t)),
           memory.data() + memory.size()}};
}

BatchLoader::BatchLoader(const Dataset& dataset, BatchPlan plan, const Config& config,
                         const shm::Arena& arena, std::span<std::byte> batches)
    : dataset_(dataset),
      plan_(std::move(plan)),
      lr_(config, plan_),
      arena_(arena),
      batches_(batches),
      stride_(batch_bytes(config, dataset.shape())),
      stateful_(config.stateful) {}

Grant BatchLoader::fill(std::int64_t ticket, std::int64_t batch_ticket, const shm::Lease& lease,
                        bool anew) {
  plan_.indices(batch_ticket, indices_);
  const Batch batch = fill_batch(dataset_, Split::kTrain, indices_,
                                 batches_.subspan(lease.buffer * stride_, stride_));
  Grant grant{.ticket = ticket,
              .batch = batch_ticket,
              .lease = lease,
              .lr = lr_.at(batch_ticket),
              .x = shm::to_handle(arena_, batch.x),
              .target = shm::to_handle(arena_, batch.target),
              .fresh = {}};
  if (stateful_) {
    grant.fresh = shm::to_handle(arena_, fresh_rows(batch_ticket, anew, batch.rest));
  }
  return grant;
}

at::Tensor BatchLoader::fresh_rows(std::int64_t batch, bool anew, std::span<std::byte> memory) {
  const std::span rows(reinterpret_cast<bool*>(memory.data()), indices_.size());
  plan_.fresh(batch, rows);
  if (anew) std::ranges::fill(rows, true);
  return at::from_blob(rows.data(), {std::ssize(rows)}, at::kBool);
}

}  // namespace passel::train
