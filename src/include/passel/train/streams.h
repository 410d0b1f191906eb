#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "passel/train/dataset.h"

namespace passel::train {

/// A split of a data set that is one long sequence, cut into lanes * rows streams of equal length
/// that are read side by side: window after window, while the state of a model is carried along.
/// Batch k of an epoch is window k / lanes of each of the `rows` streams of lane k % lanes. So what
/// batch k begins with comes from batch k - lanes, and as many batches as there are lanes have
/// nothing to do with each other.
///
/// A stream begins with the first document at or after its cut, and reads on into the next stream's
/// windows until it has as many as the others. One thread at a time.
class Streams {
 public:
  /// `dataset` must outlive it; it is asked from the first batch on, when it must be loaded.
  /// Throws UsageError where there are more streams than windows.
  Streams(const Dataset& dataset, Split split, std::int64_t lanes, std::int64_t rows);

  std::int64_t lanes() const noexcept { return lanes_; }
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t batches() const noexcept { return lanes_ * windows_; }

  /// Replaces `out` by the windows of the batch, [rows]; batch in [0, batches()).
  void indices(std::int64_t batch, std::vector<std::int64_t>& out);

  /// Which rows of the batch begin without a past: documents and streams begin there. fresh [rows].
  void fresh(std::int64_t batch, std::span<bool> fresh);

 private:
  std::int64_t window(std::int64_t batch, std::int64_t row) const noexcept;
  void find_starts();

  const Dataset& dataset_;
  Split split_;
  std::int64_t lanes_;
  std::int64_t rows_;
  std::int64_t windows_;              // of each stream
  std::vector<std::int64_t> starts_;  // [lanes * rows], or empty: not looked for yet
};

}  // namespace passel::train
