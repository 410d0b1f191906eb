#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "passel/train/config.h"
#include "passel/train/streams.h"

namespace passel::train {

/// The test split in batches: sample after sample, or of a stateful run window after window of
/// streams that are read side by side.
class TestBatches {
 public:
  TestBatches(const Dataset& dataset, const Config& config);

  std::int64_t count() const { return streams_ ? streams_->batches() : (size_ - 1) / rows_ + 1; }
  std::int64_t samples() const { return size_; }
  /// Of a batch, the last one excepted.
  std::int64_t rows() const { return rows_; }

  /// Replaces `out` by the samples of the batch.
  void indices(std::int64_t batch, std::vector<std::int64_t>& out);
  /// Of streams: the rows that begin without a past, [rows], valid until the next call.
  std::span<const bool> fresh(std::int64_t batch);

 private:
  std::int64_t size_;
  std::int64_t rows_;
  std::optional<Streams> streams_;
  std::unique_ptr<bool[]> fresh_;
};

}  // namespace passel::train
