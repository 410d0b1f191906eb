#include "test_batches.h"

#include <algorithm>
#include <numeric>

namespace passel::train {
namespace {

constexpr std::int64_t kRows = 250;

}  // namespace

TestBatches::TestBatches(const Dataset& dataset, const Config& config)
    : size_(dataset.test_size()), rows_(std::clamp<std::int64_t>(size_, 1, kRows)) {
  if (!config.stateful) return;
  rows_ = std::min(rows_, config.batch_size);
  streams_.emplace(dataset, Split::kTest, 1, rows_);
  size_ = streams_->batches() * rows_;
  fresh_ = std::make_unique<bool[]>(static_cast<std::size_t>(rows_));
}

void TestBatches::indices(std::int64_t batch, std::vector<std::int64_t>& out) {
  if (streams_) return streams_->indices(batch, out);
  const std::int64_t begin = batch * rows_;
  out.resize(static_cast<std::size_t>(std::min(rows_, size_ - begin)));
  std::iota(out.begin(), out.end(), begin);
}

std::span<const bool> TestBatches::fresh(std::int64_t batch) {
  const std::span rows(fresh_.get(), static_cast<std::size_t>(rows_));
  streams_.value().fresh(batch, rows);
  return rows;
}

}  // namespace passel::train
